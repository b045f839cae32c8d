"""Code at the sites of metrics that count a hardware metric within a function.

The statement at the function's opening brace declares a variable with a cleanup function, so the compiler itself puts
the second half wherever the function is left: at each return, at its end, and where a C++ exception passes. Both
halves call the runtime through a pointer of their own, by three instructions: the first and the last one keep the bytes
below the stack pointer, which belong to the function (the red zone). Without the runtime, the pointers lead to a
function that does nothing. The compiler does not know of the call, so the function called keeps all registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from unperturbed.errors import HostError
from unperturbed.instrument.events.targets import Selected

KIND = "within"
"""Name of the event kind whose sites begin a region."""

_MACHINE = "x86-64"
_MOST_METRICS = 63  # As UNPERTURBED_REGIONS in `unperturbed.h`: metrics have smaller numbers

# The three instructions are places of their own (`binaries.places`): each has one operand that may be moved.
_INSTRUCTIONS = (
    "{leaq -128(%%rsp),%%rsp|lea rsp,[rsp-128]}",
    "call {*%0|%0}",
    "{leaq 128(%%rsp),%%rsp|lea rsp,[rsp+128]}",
)
_POINTERS = "__unperturbed_regions"

_DECLARATIONS = """\
static void __attribute__((used)) __unperturbed_no_region(void) {{}}
static void (*{pointers}[{count}])(void) __attribute__((used)) = {{{idle}}};
{language}void (*unperturbed_region_entry(unsigned int))(void) __attribute__((weak, visibility("default")));
static void __attribute__((constructor)) __unperturbed_construct_regions(void) {{ \
static const unsigned int codes[{count}] = {{{codes}}}; \
for (unsigned int i = 0; unperturbed_region_entry && i < {count}u; i++) {{ \
void (*entry)(void) = unperturbed_region_entry(codes[i]); if (entry) {pointers}[i] = entry; }} }}
"""
_LEAVING = """\
static __inline__ void __attribute__((always_inline, no_instrument_function)) \
__unperturbed_leave_{region}(char *unused) {{ (void)unused; {crossing} }}
"""


def refuse_regions(metrics: Iterable[Selected], machine: str) -> None:
    """Raise HostError if some metrics with a site cannot count within functions; `machine`: as in `Facts`."""
    within = [metric for metric in metrics if metric.kind == KIND]
    if within and machine != _MACHINE:
        raise HostError(
            "metrics that count `within` a function need code for x86-64, and with clang AT&T assembly syntax: remove "
            "them, or count the function's entries by `enter`"
        )
    if any(metric.number >= _MOST_METRICS for metric in within):
        raise HostError(
            f"metrics that count `within` a function must be among the first {_MOST_METRICS} under `software`: write "
            "them first"
        )


def statement(region: int, crossing: Callable[[str], str]) -> str:
    """Return the statement at a function's entry; `region`: number among the regions of the translation unit.

    `crossing`: Returns the asm statement with an instruction in the build's form (see `rewrite`).
    """
    attributes = f"__attribute__((__cleanup__(__unperturbed_leave_{region}),__unused__))"
    return f"char __unperturbed_region_{region} {attributes};{_crossing(2 * region, crossing)}"


def _crossing(pointer: int, written: Callable[[str], str]) -> str:
    # %= is the same number in a whole statement: each of its places needs a label of its own.
    places = (written(text).replace("_%=", f"_%={letter}") for letter, text in zip("abc", _INSTRUCTIONS, strict=True))
    text = ";".join(places)
    return f'__asm__ __volatile__ __inline__("{text}"::"m"({_POINTERS}[{pointer}]):"memory");'


def declarations(metrics: Sequence[int], crossing: Callable[[int, str], str], *, language: str) -> str:
    """Return the declarations of a translation unit; `metrics`: the number of each region's metric."""
    codes = [code for metric in metrics for code in (2 * metric, 2 * metric + 1)]
    text = _DECLARATIONS.format(
        pointers=_POINTERS,
        count=len(codes),
        idle=",".join(["__unperturbed_no_region"] * len(codes)),
        codes=",".join(map(str, codes)),
        language='extern "C" ' if language == "c++" else "extern ",
    )
    for region, metric in enumerate(metrics):
        code = _crossing(2 * region + 1, partial(crossing, metric))
        text += _LEAVING.format(region=region, crossing=code)
    return text.replace("\\\n", "")
