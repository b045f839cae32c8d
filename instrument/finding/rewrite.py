"""Counting code, and its insertion into a preprocessed text without moving a line.

At -O2, gcc and clang sink a plain `c++` out of loops, and samples taken during a run read 0; a volatile increment is
three instructions. One `incq` in an asm statement is one instruction, and compilers do not move it.

In a sham build each asm statement keeps its operands, so the compiler generates the same code around it. The statement
emits no-ops as long as its instructions: the program has the layout of the counting build, without the counting.

A patchable build is a sham with a list of its places. Each statement also assembles the counting instructions, with the
operands that the compiler chose for this copy of the site, into the section `unperturbed_places`, from which
`binaries.places` writes them over the no-ops of a program's file. The section's flags tie an entry to the code that it
belongs to: "o" (the linker drops the entry with the code, --gc-sections) and "?" (and with its group, for templates).
In a build with doses (`finding.doses`), a place holds several increments.

With threads one by one (`threads` is `each`), the counters are variables of each thread: one `incq` relative to the
thread pointer counts exactly, because no other thread writes there. A library's code loads the distance first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from unperturbed.instrument.events.targets import Selected
from unperturbed.instrument.finding import interval_ends, regions
from unperturbed.instrument.finding.doses import dose_entry, dose_no_ops, dose_slots, dummy_arrays, own_label
from unperturbed.instrument.finding.preprocessed import PreprocessedText
from unperturbed.instrument.finding.sites import Site

Form: TypeAlias = Literal["counting", "sham", "patchable"]
"""What a site's statement does: count; nothing, for as many bytes; nothing until its place is patched."""

_COUNTS = "__unperturbed_counts"
_VERSION, _OF_EACH_THREAD = 1, 2

# An artificial file name, marked as a system header: debuggers and gcov skip the inserted declarations.
_ORIGIN = '# 1 "<unperturbed>" 3\n'

_TABLE = """\
struct __unperturbed_table {{ struct __unperturbed_table *next; unsigned long long *counts; \
const unsigned int *metric; \
unsigned int sites; unsigned int version; }};
{language}void unperturbed_register(struct __unperturbed_table *) __attribute__((weak, visibility("default")));
{counters}
static const unsigned int __unperturbed_metric[{sites}] = {{{metrics}}};
static struct __unperturbed_table __unperturbed_table = {{ 0, {address}, \
__unperturbed_metric, {sites}u, \
{version}u }};
static void __attribute__((constructor)) __unperturbed_construct(void) {{ {assigned}\
if (unperturbed_register) unperturbed_register(&__unperturbed_table); }}
"""

_SHARED = """\
static {volatile}unsigned long long {counts}[{sites}] __attribute__((section("unperturbed_sites"), used, aligned(64)));\
"""
# Without a model, a library's code would call a function at each site, and find a variable of each thread that has no
# fixed distance from the thread pointer.
_OF_A_THREAD = "static __thread unsigned long long {counts}[{sites}] __attribute__((used{model}));"

_GAUGE = """\
struct __unperturbed_gauge { const volatile void *address; unsigned int metric; unsigned short bytes; \
unsigned short is_signed; };
"""
_OPENER = """\
template<class __unperturbed_tag, class __unperturbed_type, __unperturbed_type *__unperturbed_place, \
unsigned long __unperturbed_bytes>
struct __unperturbed_opener { static_assert(sizeof(__unperturbed_type) == __unperturbed_bytes, "");
friend constexpr const volatile void *__unperturbed_open(__unperturbed_tag) { return __unperturbed_place; } };
"""

_X86_INCREMENT = "{incq %0|inc %0}"
_X86_ADDITION = "{addq %1,%0|add %0,%1}"

# Only the assembler knows the length of the instruction, whose operand may have a base register and a displacement of
# one or four bytes. So the instruction is assembled into a section that does not become part of the program. Then the
# no-op of that length follows, out of those of 2 to 8 bytes that the manuals of Intel and AMD recommend; a longer
# instruction adds operand-size prefixes. Both gas and LLVM evaluate `.fill` late enough, but only gas `.nops` and
# `.if`. (& 1: for gas a true comparison is -1.) asm inline: otherwise gcc takes long text for large code.
_LENGTH = "(77662b-77661b)"
_NO_OPS = ((2, 0x9066), (3, 0x1F0F), (4, 0x401F0F), (5, 0x441F0F), (6, 0x441F0F66), (7, 0x801F0F))
_X86_NO_OP = (
    f".fill (({_LENGTH}>8)&1)*({_LENGTH}-8),1,0x66;"
    + "".join(f".fill ({_LENGTH}=={length})&1,{length},{code:#x};" for length, code in _NO_OPS)
    + f".fill ({_LENGTH}>7)&1,8,0x841f0f"
)
_X86_SHAM = '.pushsection .unperturbed_length,\\"e\\",@progbits;.byte 0;77661:{text};77662:.popsection;' + _X86_NO_OP

# %= is a number that differs between the copies of a statement. As in `binaries.places`, which reads the entries:
# distance to the place, metric, version, length, instructions.
_ENTRY = (
    '.Lunperturbed_%=:.pushsection unperturbed_places,\\"ao?\\",{progbits},.Lunperturbed_%=;.balign 4;'
    ".long .Lunperturbed_%=-.,{metric};.short 1,77662f-77661f;77661:{text};77662:.popsection;"
)

_ARM_PLAIN: tuple[str, ...] = ("ldr %1,%0", "add %1,%1,{operand}", "str %1,%0")
_ARM_EXCLUSIVE: tuple[str, ...] = ("77661:ldxr %1,%0", "add %1,%1,{operand}", "stxr %w2,%1,%0", "cbnz %w2,77661b")
_ARM_ATOMIC: tuple[str, ...] = ("stadd %1,%0",)


def rewrite(
    text: PreprocessedText,
    sites: Sequence[Site],
    metrics: Sequence[Selected],
    *,
    source: str,
    language: str,
    machine: str,
    form: Form = "counting",
    library: bool = False,
    doses: int = 1,
) -> bytes:
    """Return the text with counters and gauges inserted; file and line of all code stay the same.

    `machine`: As in `Facts`. For '', counting is a volatile addition (several instructions; on 32-bit machines a sample
    may fall between the two halves of the addition), or an atomic addition.
    `library`: Whether the code may become part of a library.
    `doses`: Number of increments that a place of a patchable build can hold.
    """
    counted = [site for site in sites if site.gauge is None]
    insertions: list[tuple[int, int, int, bytes]] = []
    within = _regions(counted, metrics)
    for slot, site in enumerate(counted):
        counter, metric = f"{_COUNTS}[{slot}]", metrics[site.metric]
        if slot in within:
            statement = regions.statement(within.index(slot), partial(_crossing, form, metric.number))
        elif doses == 1 or metric.ends_intervals:
            statement = _statement(counter, site, metric, machine, form)
        else:
            statement = _dosed_statement(dose_slots(slot, counter, doses), site, metric, machine)
        # (void)0: clang evaluates ({…}) in a constant expression only if it ends with an expression.
        counting = f"if(!__builtin_is_constant_evaluated()){{{statement}}}(void)0;" if site.guarded else statement
        start, end = site.point.start, site.point.end
        if site.point.form == "expression":
            insertions.append((start, 2, -end, f"(__extension__({{{counting}}}),".encode()))
            insertions.append((end, 0, -start, b")"))
        elif site.point.form == "bare":
            insertions.append((start, 1, slot, f"if((__extension__({{{counting}}}),0));else ".encode()))
        else:
            insertions.append((start, 1, slot, counting.encode()))
    insertions += _entries(sites, metrics, language)
    how = {"source": source, "language": language, "machine": machine}
    prologue = _prologue(text, sites, metrics, **how, form=form, library=library, doses=doses)
    insertions.append((text.prologue_offset(), -1, 0, prologue.encode("utf-8", "surrogateescape")))
    return _inserted(text.data, insertions)


def _inserted(data: bytes, insertions: list[tuple[int, int, int, bytes]]) -> bytes:
    """Insert texts; at one offset, first closing parentheses, then statements, then opening ones, the widest first."""
    pieces = []
    last = 0
    for offset, _, _, piece in sorted(insertions):
        pieces += [data[last:offset], piece]
        last = offset
    return b"".join([*pieces, data[last:]])


def _entries(sites: Sequence[Site], metrics: Sequence[Selected], language: str) -> list[tuple[int, int, int, bytes]]:
    """Return the gauges' entries; the bounds of their section keep them in a link (lld also needs `retain`)."""
    entries = []
    written: set[str] = set()
    kind = "struct ::__unperturbed_gauge" if language == "c++" else "struct __unperturbed_gauge"
    for number, site in enumerate(sites):
        if site.gauge is None:
            continue
        before = "" if site.gauge.before in written else site.gauge.before
        written.add(site.gauge.before)
        values = f"{site.gauge.address},{metrics[site.metric].number}u,{site.gauge.bytes},{site.gauge.is_signed}"
        attributes = 'section("unperturbed_gauges"),used,retain,aligned(__alignof__(void *))'
        name = f"__unperturbed_gauge_{number} __attribute__(({attributes}))"
        entries.append((site.point.start, 1, number, f" {before}static {kind} {name}={{{values}}};".encode()))
    return entries


def _statement(slot: str, site: Site, metric: Selected, machine: str, form: Form) -> str:
    """Return the statement that adds to a slot, or its replacement in a sham or patchable build."""
    add, exact = site.add, metric.threads == "exact"
    if metric.ends_intervals:  # counts in every form: it cuts all runs in the same way
        if machine == "x86-64":
            return interval_ends.statement(slot, exact=exact)
        lines = _ARM_EXCLUSIVE if exact else _ARM_PLAIN
        return interval_ends.arm_statement(slot, [line.format(operand="#1") for line in lines])
    if machine == "x86-64":
        text = ("lock " if exact else "") + (_X86_ADDITION if add else _X86_INCREMENT)
        operands = f':"+m"({slot})' + (f':"er"((long long)({add}))' if add else "")
        if form == "counting":
            return f'__asm__ __volatile__("{text}"{operands});'
        whole = _X86_SHAM if form == "sham" else _entry(metric.number, "@progbits") + _X86_NO_OP
        return f'__asm__ __volatile__ __inline__("{whole.replace("{text}", text)}"{operands});'
    if machine.startswith("aarch64"):
        return _arm_statement(slot, site, metric, atomic=machine == "aarch64+lse", form=form)
    value = f"(unsigned long long)(long long)({add or 1})"
    # Predefined macros are no longer expanded: 0 is __ATOMIC_RELAXED. (void): otherwise the compiler would read the
    # value of ({…}) from the counter.
    return f"(void)__atomic_fetch_add(&{slot},{value},0);" if exact else f"(void)({slot}+={value});"


def _regions(counted: Sequence[Site], metrics: Sequence[Selected]) -> list[int]:
    """Return the slots of the sites at which a region begins."""
    return [slot for slot, site in enumerate(counted) if metrics[site.metric].kind == regions.KIND]


def _crossing(form: Form, metric: int, instruction: str) -> str:
    """Return one of the instructions at a region's entry or leaving, in the build's form."""
    if form == "counting":
        return instruction
    whole = _X86_SHAM if form == "sham" else _entry(metric, "@progbits") + _X86_NO_OP
    return whole.replace("{text}", instruction)


def _dosed_statement(slots: Sequence[str], site: Site, metric: Selected, machine: str) -> str:
    """Return the statement of a place that holds an increment of each slot, in a patchable build."""
    if machine.startswith("aarch64"):
        return _dosed_arm_statement(slots, site, metric, atomic=machine == "aarch64+lse")
    text = ("lock " if metric.threads == "exact" else "") + (_X86_ADDITION if site.add else _X86_INCREMENT)
    # %1 first: it is the value that is added, the operand after all slots.
    texts = [text.replace("%1", f"%{len(slots)}").replace("%0", f"%{number}") for number in range(len(slots))]
    whole = dose_entry(metric.number, texts, "@progbits") + dose_no_ops(_X86_NO_OP, _LENGTH, len(slots))
    operands = ":" + ",".join(f'"+m"({slot})' for slot in slots)
    operands += f':"er"((long long)({site.add}))' if site.add else ""
    return f'__asm__ __volatile__ __inline__("{whole}"{operands});'


def _dosed_arm_statement(slots: Sequence[str], site: Site, metric: Selected, *, atomic: bool) -> str:
    exact, value = metric.threads == "exact", f'"r"((long long)({site.add or 1}))'
    lines = (_ARM_ATOMIC if atomic else _ARM_EXCLUSIVE) if exact else _ARM_PLAIN
    outputs = [f'"{"+Q" if exact else "+m"}"({slot})' for slot in slots]
    if not (exact and atomic):
        outputs += ['"=&r"(__unperturbed_sum)', *(['"=&r"(__unperturbed_failed)'] if exact else [])]
    first = len(slots)  # Number of the operand after all slots
    operand = f"%{len(outputs)}" if site.add or (exact and atomic) else "#1"

    def numbered(line: str, number: int) -> str:
        line = line.replace("%w2", f"%w{first + 1}").replace("%1", f"%{first}").replace("%0", f"%{number}")
        return own_label(line.format(operand=operand), "77661", number)

    texts = [";".join(numbered(line, number) for line in lines) for number in range(len(slots))]
    text = dose_entry(metric.number, texts, "%%progbits") + ";".join(["nop"] * len(lines) * len(slots))
    zero = "=0" if site.guarded else ""  # C++14 and 17 require initialised variables in a constexpr function
    variables = f"unsigned long long __unperturbed_sum{zero};unsigned int __unperturbed_failed{zero};"
    inputs = f":{value}" if operand != "#1" else ""
    separated = text.replace(";", "\\n\\t")
    return f'{{{variables}__asm__ __volatile__ __inline__("{separated}":{",".join(outputs)}{inputs});}}'


def _entry(metric: int, progbits: str) -> str:
    return _ENTRY.replace("{progbits}", progbits).replace("{metric}", str(metric))


def _arm_statement(slot: str, site: Site, metric: Selected, *, atomic: bool, form: Form) -> str:
    add, exact = site.add, metric.threads == "exact"
    value = f'"r"((long long)({add or 1}))'
    if exact and atomic:
        lines, operands = _ARM_ATOMIC, f':"+Q"({slot}):{value}'
    elif exact:
        lines = _ARM_EXCLUSIVE
        operands = f':"+Q"({slot}),"=&r"(__unperturbed_sum),"=&r"(__unperturbed_failed)' + (f":{value}" if add else "")
    else:
        lines, operands = _ARM_PLAIN, f':"+m"({slot}),"=&r"(__unperturbed_sum)' + (f":{value}" if add else "")
    text = "\\n\\t".join(lines).format(operand=("%3" if exact else "%2") if add else "#1")
    no_op = "\\n\\t".join("nop" for _ in lines)
    if form == "sham":
        text = no_op
    elif form == "patchable":
        text = _entry(metric.number, "%%progbits").replace(";", "\\n\\t").replace("{text}", text) + no_op
    zero = "=0" if site.guarded else ""  # C++14 and 17 require initialised variables in a constexpr function
    variables = f"unsigned long long __unperturbed_sum{zero};unsigned int __unperturbed_failed{zero};"
    inline = " __inline__" if form == "patchable" else ""
    return f'{{{variables}__asm__ __volatile__{inline}("{text}"{operands});}}'


def _prologue(
    text: PreprocessedText,
    sites: Sequence[Site],
    metrics: Sequence[Selected],
    *,
    source: str,
    language: str,
    machine: str,
    form: Form,
    library: bool,
    doses: int = 1,
) -> str:
    numbers = [metrics[site.metric].number for site in sites if site.gauge is None]
    gauges = [site.gauge for site in sites if site.gauge is not None]
    prologue = _ORIGIN
    if numbers:
        each = any(metrics[site.metric].threads == "each" for site in sites)
        counters, address = _OF_A_THREAD if each else _SHARED, f"(unsigned long long *){_COUNTS}"
        prologue += _TABLE.format(
            language='extern "C" ' if language == "c++" else "extern ",
            counters=counters.format(
                volatile="" if machine else "volatile ",
                counts=_COUNTS,
                sites=len(numbers),
                model=', tls_model("initial-exec")' if library else "",
            ),
            address="0" if each else address,
            assigned=f"__unperturbed_table.counts = {address}; " if each else "",
            sites=len(numbers),
            metrics=",".join(map(str, numbers)),
            version=_OF_EACH_THREAD if each else _VERSION,
        )
        prologue += dummy_arrays(len(numbers), doses)
    if interval_ends.ends_intervals([site.metric for site in sites], metrics):
        prologue += interval_ends.declarations(language=language, library=library)
    if within := _regions([site for site in sites if site.gauge is None], metrics):
        prologue += regions.declarations(
            [numbers[slot] for slot in within], partial(_crossing, form), language=language
        )
    prologue += _GAUGE if gauges else ""
    prologue += _OPENER if any(gauge.opens for gauge in gauges) else ""
    offset = text.prologue_offset()
    if re.match(rb"#(?:line)? \d+ ", text.data[offset : offset + 16]):
        return prologue
    file, line = text.locate(offset)
    name = (file or source).replace("\\", "\\\\").replace('"', '\\"')
    here = f'# {line} "{name}"\n'
    return prologue + here if offset else here + prologue + here
