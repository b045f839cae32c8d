"""Programs under a sampler with libraries preloaded, as the harness runs them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from unperturbed.collectors.records.file import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer


def run_sampled(
    folder: Path,
    command: Sequence[str],
    libraries: Sequence[Path],
    setup: Setup,
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a command; return its records, which are kept in `folder`, and what it left."""
    record = folder / "record"
    create_record_file(record, setup)
    outside = setup.sampler == "outside"
    done = subprocess.run(
        [*([str(build_observer("gcc")), str(record)] if outside else []), *command],
        env={
            "UNPERTURBED_RECORD": str(record),
            "UNPERTURBED_PRELOAD" if outside else "LD_PRELOAD": ":".join(map(str, libraries)),
            **environment,
        },
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return read_record_file(record, setup), done


def counts(records: Records) -> list[int]:
    """Return the software metrics' last counts."""
    assert records.state == "finished", records.message
    return [int(value) for value in records.rows["software"][-1]]
