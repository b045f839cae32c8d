"""What a hit of a kernel's probe costs on this host, measured in a tenth of a second."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from unperturbed.collectors.kernel_probes.registration import register_probes, remove_probes
from unperturbed.collectors.runtime.build import build_hit_cost
from unperturbed.common import supervision
from unperturbed.errors import HostError


@dataclass(frozen=True)
class HitCost:
    """What a hit takes of the program's time."""

    cheap_ns: float  # Where the kernel emulates the probed instruction, as a push or a nop
    dear_ns: float  # Where the processor steps over it

    def ns(self, hit: str) -> float:
        """Return the cost of a site whose instruction is `cheap`, `dear` or `unknown` (then the greater)."""
        return self.cheap_ns if hit == "cheap" else max(self.cheap_ns, self.dear_ns)


@dataclass(frozen=True)
class _Place:
    number: int
    name: str
    path: Path
    offset: int
    semaphore: int = 0


def measure_hit_cost(compiler: str = "cc") -> HitCost:
    """Measure what a hit costs: the median block of calls with a probe, less that without, in a program made for it."""
    program = build_hit_cost(compiler)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with supervision.start([str(program)], **pipes, text=True) as process:
        try:
            assert process.stdout is not None
            cheap, dear = map(int, process.stdout.readline().split())
            name = f"{program.name}:trial"
            places = [_Place(0, name, program, cheap), _Place(0, name, program, dear)]
            (probe,) = register_probes(places, tried=False)
            printed, error = process.communicate(f"{probe.tracepoint}\n")
            remove_probes([probe])
        finally:
            supervision.end(process)
    if process.returncode != 0:
        raise HostError(f"the cost of a probe cannot be measured: {error.strip() or f'exit code {process.returncode}'}")
    return HitCost(*map(float, printed.split()))
