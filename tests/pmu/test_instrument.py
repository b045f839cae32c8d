"""Instrumented programs on another machine than this one: counts, gauges and sham builds of AArch64, in one boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pmu.architectures import NEWEST_ARM64
from tests.pmu.machine import Machine
from unperturbed.collectors.records.file import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, build_observer, runtime_files
from unperturbed.instrument.binaries.places import patch, read_places
from unperturbed.instrument.command_line import parse_command
from unperturbed.instrument.compiler.settings import read_settings
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.compiler.wrapper import run
from unperturbed.instrument.events import parse_event

# The program counts for itself; the last line is what its gauge should be.
TEXT = """\
#include <stdio.h>
struct s { int n; long total; } state; static int seen; static long own[6];
static int f(int n, long m) { own[0]++; own[2] += n * m; own[3]++; seen += (int)(n * m); return seen & 0xff; }
static int g(int n) {
    own[0]++;
    int sum = 0;
    for (int i = 0; i < n; i++) { own[1]++; own[4] += i + 1; sum += f(i, n); state.n -= sum; }
    return sum ? sum : f(n, 1);
}
int main(void) {
    own[0]++;
    for (int i = 0; i < 300; i++) { own[1]++; state.total += g(i); }
    own[5] = state.n;
    own[1] += 6; /* of this last loop */
    for (int i = 0; i < 6; i++) printf("%ld\\n", own[i]);
    return 0;
}
"""
SOFTWARE = {
    "enters": {"enter": "*"},
    "loops": {"loop": "*"},
    "weight": {"enter": "f", "add": "n * m"},
    "exact": {"enter": "f", "threads": "exact"},
    "exact weight": {"loop": "g", "add": "i + 1", "threads": "exact"},
    "gauge": {"gauge": "state.n"},
}
FLAGS = {"plain": "-O0", "fast": "-O2", "late": "-march=armv8.1-a"}


@dataclass(frozen=True)
class Left:
    """What a program printed about itself, and what was recorded of it."""

    own: list[int]
    records: Records


FORMS = {"real": "counting", "sham": "sham", "patched": "patchable"}


@pytest.fixture(scope="module")
def left(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    return run_instrumented(machine, tmp_path_factory.mktemp("instrument"), FLAGS, cpu=NEWEST_ARM64)


def run_instrumented(
    machine: Machine, folder: Path, flags: Mapping[str, str], *, cpu: str = "", shams: bool = True
) -> dict[str, Left]:
    """Build the program with its metrics by each of some flags, run it under both samplers, and return what was left.

    Parameters
    ----------
    machine, cpu : where it runs; see `Machine.run`.
    flags : one of the compiler by the name of a build.
    shams : whether sham and patched builds are made too, which only some machines can have.
    """
    compiler = machine.architecture.compiler
    (folder / "prog.c").write_text(TEXT)
    software = {name: parse_event(event) for name, event in SOFTWARE.items()}
    files: dict[str, Path] = {"/bin/observer": build_observer(compiler)}
    setups: dict[str, Setup] = {}
    script = []
    for build, flag in flags.items():
        for way, form in list(FORMS.items())[: None if shams else 1]:
            compilers = write_toolchain(
                folder / f"{build}-{way}.toolchain",
                software,
                compilers={"cc": compiler},
                runtime=runtime_files(),
                bounds=BOUNDS,
                form=form,
            )
            program = folder / f"{build}-{way}"
            words = (compiler, flag, "-static", str(folder / "prog.c"), "-o", str(program))
            assert parse_command(words).static
            assert run(read_settings(str(compilers.folder / "settings.json")), words) == 0
            if form == "patchable":
                patch(program, read_places(program), range(len(software)))
            files[f"/bin/{program.name}"] = program
            for sampler in ("inside", "outside"):
                name = f"{program.name}-{sampler}"
                setups[name] = Setup("none", 5_000_000, "monotonic", sampler=sampler, software=6, capacity=256)  # type: ignore[arg-type]
                create_record_file(folder / f"{name}.record", setups[name])
                files[f"/out/{name}.record"] = folder / f"{name}.record"
                observed = f"observer /out/{name}.record" if sampler == "outside" else ""
                script.append(
                    f"UNPERTURBED_RECORD=/out/{name}.record {observed} /bin/{program.name} > /out/{name}.own || exit 1"
                )
    outcome = machine.run(files, "\n".join(script), timeout_s=100, cpu=cpu)
    assert outcome.status == 0, outcome.console
    found = {}
    for name, setup in setups.items():
        record = folder / f"{name}.back"
        record.write_bytes(outcome.files[f"{name}.record"])
        found[name] = Left(
            [int(line) for line in outcome.files[f"{name}.own"].split()], read_record_file(record, setup)
        )
    return found


@pytest.mark.parametrize("sampler", ["inside", "outside"])
@pytest.mark.parametrize("build", FLAGS)
@pytest.mark.parametrize("way", ["real", "patched"])
def test_counts_and_gauge_are_the_programs_own(left: dict[str, Left], way: str, build: str, sampler: str) -> None:
    found = left[f"{build}-{way}-{sampler}"]
    assert found.records.state == "finished"
    assert list(found.records.rows["software"][-1]) == found.own
    assert found.own[0] > 40_000


@pytest.mark.parametrize("sampler", ["inside", "outside"])
@pytest.mark.parametrize("build", FLAGS)
def test_a_sham_build_counts_nothing_and_prints_the_same(left: dict[str, Left], build: str, sampler: str) -> None:
    found = left[f"{build}-sham-{sampler}"]
    assert found.own == left[f"{build}-real-{sampler}"].own
    assert list(found.records.rows["software"][-1]) == [0, 0, 0, 0, 0, found.own[5]]
