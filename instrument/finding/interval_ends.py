"""Code at the sites of the metric whose events end intervals: count the event, count down, and call the sampler at 0.

The countdown is a variable of the thread, `unperturbed_remaining`: only events of a thread with a sampler end
intervals, and no thread needs a lock. Every translation unit with such a site defines the variable as a weak symbol,
with a value that no program counts down; the runtime has the same symbol. All of a program's code then shares the
runtime's variable, and code that is used without the runtime has its own, at which nothing ever happens.

On x86-64, the statement is an increment, a decrement and a jump that is taken; the call is between jump and target.
There it keeps the bytes below the stack pointer, which belong to the function (the red zone). On AArch64, the statement
tests the sign of the number before the last, so it changes no flag; there, it keeps the return address (x30). The
compiler does not know of the call, so the function called keeps all other registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from unperturbed.instrument.events.targets import Selected

MACHINES = ("x86-64", "aarch64", "aarch64+lse")
"""Machines, as in `Facts`, whose programs can end intervals by their own events."""

_NEVER = "0x7fffffffffffffffLL"

# A program's own code reaches the variable without a table; a library's code reads its offset from one.
_DECLARATIONS = """\
{opening}__thread long long unperturbed_remaining __attribute__((weak, visibility("default"){model})) = {never};
void unperturbed_interval_ends(void) __attribute__((weak, visibility("default")));
void unperturbed_register_countdown(long long *) __attribute__((weak, visibility("default")));
{closing}static void (*const __unperturbed_interval_ends)(void) __attribute__((used)) = unperturbed_interval_ends;
static void __attribute__((constructor)) __unperturbed_construct_countdown(void) {{ \\
if (unperturbed_register_countdown) unperturbed_register_countdown(&unperturbed_remaining); }}
"""

_X86_COUNT_DOWN = (
    "\\n\\tdecq %1\\n\\tjg 77665f\\n\\t{leaq -128(%%rsp),%%rsp|lea rsp,[rsp-128]}\\n\\tcall {*%2|%2}\\n\\t"
    "{leaq 128(%%rsp),%%rsp|lea rsp,[rsp+128]}\\n77665:"
)
_ARM_COUNT_DOWN = (
    *("ldr %1,%3", "sub %1,%1,#1", "str %1,%3", "sub %1,%1,#1", "tbz %1,#63,77665f"),
    *("ldr %1,%4", "stp x29,x30,[sp,#-16]!", "blr %1", "ldp x29,x30,[sp],#16", "77665:"),
)


def ends_intervals(numbers: Sequence[int], metrics: Sequence[Selected]) -> bool:
    """Return whether any of some metrics, given by index, ends intervals."""
    return any(metrics[number].ends_intervals for number in numbers)


def declarations(*, language: str, library: bool) -> str:
    """Return the declarations that the statements of a translation unit need; `library`: for code of a library."""
    return _DECLARATIONS.format(
        opening='extern "C" {\n' if language == "c++" else "",
        closing="}\n" if language == "c++" else "",
        model=', tls_model("initial-exec")' if library else "",
        never=_NEVER,
    ).replace("\\\n", "")


def statement(slot: str, *, exact: bool) -> str:
    """Return the x86-64 statement that adds 1 to a slot and ends an interval if its last event has happened."""
    # Two dialects of the assembler; asm inline: otherwise gcc takes the text for large code.
    text = ("lock " if exact else "") + "{incq %0|inc %0}" + _X86_COUNT_DOWN.replace("decq %1", "{decq %1|dec %1}")
    operands = f':"+m"({slot}),"+m"(unperturbed_remaining):"m"(__unperturbed_interval_ends)'
    return f'__asm__ __volatile__ __inline__("{text}"{operands});'


def arm_statement(slot: str, counting: Sequence[str]) -> str:
    """Return the same statement for AArch64.

    `counting`: Instructions that add 1 to the slot (%0), by way of two registers (%1 and %2).
    """
    lines = "\\n\\t".join([*counting, *_ARM_COUNT_DOWN])
    operands = (
        f':"+Q"({slot}),"=&r"(__unperturbed_number),"=&r"(__unperturbed_failed),"+m"(unperturbed_remaining)'
        ':"m"(__unperturbed_interval_ends)'
    )
    variables = "unsigned long long __unperturbed_number=0;unsigned int __unperturbed_failed=0;"
    return f'{{{variables}__asm__ __volatile__ __inline__("{lines}"{operands});}}'
