"""The facts of a campaign that its report shows."""

from __future__ import annotations

from pathlib import Path

from tests.harness.phases_campaign import write_spec
from unperturbed.harness.results.reporting import _of_program
from unperturbed.harness.spec.load import load_spec

SAMPLER = ["/usr/bin/valgrind", "--tool=callgrind"]


def test_the_command_is_the_programs_without_the_samplers_words(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, program__run="{build}/phases 'a b'"))
    assert _of_program(spec, [*SAMPLER, "/b/phases", "a b"]) == "/b/phases 'a b'"
    assert _of_program(spec, []) == "{build}/phases 'a b'"
    in_shell = load_spec(write_spec(tmp_path, program__run="{build}/phases 3 | sort", program__shell=True))
    assert _of_program(in_shell, [*SAMPLER, "/bin/sh", "-c", "/b/phases 3 | sort"]) == "/b/phases 3 | sort"
