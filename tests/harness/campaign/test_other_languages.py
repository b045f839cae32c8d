"""Programs in Go and Rust, built by their own compilers: what can be counted, and what is refused by name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.campaign.test_software_campaign import NATIVE
from tests.harness.phases_campaign import unperturbed, write_spec

RUST = """
#[inline(never)]
fn label(n: u64) -> String { format!("label {}", n) }

fn main() {
    let mut sum = 0u64;
    for n in 0..200_000 { sum += label(n).len() as u64; for k in 0..500 { sum = sum.rotate_left(3) ^ k; } }
    println!("{}", sum);
}
"""
GO = """package main

import "fmt"

func main() { fmt.Println("words") }
"""


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no Rust compiler here (apt-get install rustc)")
def test_library_calls_of_a_rust_program_are_counted_in_a_build_without_the_wrapper(tmp_path: Path) -> None:
    (tmp_path / "rust").mkdir()
    (tmp_path / "rust/main.rs").write_text(RUST)
    changed = {
        **NATIVE,
        "program__source": "rust",
        "program__build": f"{shutil.which('rustc')} -O -o labels main.rs",
        "program__run": "{build}/labels",
        "measure__sampler": "outside",
        "measure__software": {"allocations": {"preload": "malloc"}},
        "campaign__subsets": {"library": ["allocations"]},
        "analysis__anchor": None,
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed), "--no-check")
    assert done.returncode == 0, done.stderr
    for trace in traces(tmp_path / "campaigns/phases", "library"):
        assert trace["allocations"].sum() >= 200_000


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go compiler here (apt-get install golang-go)")
def test_a_static_go_program_is_refused_where_something_would_have_to_be_loaded_into_it(tmp_path: Path) -> None:
    (tmp_path / "go").mkdir()
    (tmp_path / "go/main.go").write_text(GO)
    (tmp_path / "go/go.mod").write_text("module words\n\ngo 1.19\n")
    changed = {
        **NATIVE,
        "program__source": "go",
        "program__build": "go build -o words .",
        "program__environment": {"HOME": str(tmp_path)},
        "program__run": "{build}/words",
        "analysis__anchor": None,
        "campaign__subsets": None,
    }
    inside = write_spec(tmp_path, **changed, measure__software={})
    done = unperturbed(tmp_path, "run", inside, "--no-check")
    assert done.returncode != 0
    assert "words is linked statically: there is no dynamic linker that could load the sampler" in done.stderr
    calls = {"allocations": {"preload": "malloc"}}
    shown = unperturbed(tmp_path, "sites", write_spec(tmp_path, **changed, measure__software=calls))
    assert "this file is statically linked" in shown.stderr
    outside = write_spec(tmp_path, **changed, measure__sampler="outside", measure__software=calls)
    done = unperturbed(tmp_path, "run", outside, "--no-check")
    assert done.returncode != 0
    assert "this file is statically linked" in done.stderr


CGO = """package main

import "fmt"

// #include <stdlib.h>
import "C"

func main() {
	done := make(chan bool)
	for worker := 0; worker < 3; worker++ {
		go func() {
			for i := 0; i < 20000; i++ {
				C.free(C.malloc(64))
			}
			done <- true
		}()
	}
	for worker := 0; worker < 3; worker++ {
		<-done
	}
	fmt.Println("words")
}
"""


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go compiler here (apt-get install golang-go)")
def test_library_calls_of_a_dynamic_go_program_are_counted_from_outside_and_no_sampler_works_inside(
    tmp_path: Path,
) -> None:
    (tmp_path / "words_go").mkdir()
    (tmp_path / "words_go/main.go").write_text(CGO)
    (tmp_path / "words_go/go.mod").write_text("module words\n\ngo 1.19\n")
    go = ["env", f"HOME={tmp_path}", "CGO_ENABLED=1", "GOFLAGS=-buildvcs=false", "go", "build", "-o", "../words", "."]
    subprocess.run(go, cwd=tmp_path / "words_go", check=True)
    for counters in (
        ("--source", "perf_event", "--metrics", "perf::task-clock"),
        ("--source", "simulated", "--metrics", "PAPI_TOT_INS"),
    ):
        done = unperturbed(tmp_path, "run", *counters, "--no-check", "--name", "inside", "--", "./words")
        assert done.returncode == 1
        assert "/words is a Go program, and its runtime handles all signals itself" in done.stderr
    started = unperturbed(tmp_path, "run", *counters, "--no-check", "--name", "child", "--", "sh", "-c", "./words; :")
    assert started.returncode == 0 or "the simulator (valgrind) failed itself" in started.stderr, started.stderr
    changed = {
        **NATIVE,
        "program__source": None,
        "program__build": None,
        "program__run": str(tmp_path / "words"),
        "measure__sampler": "outside",
        "measure__software": {"allocations": {"preload": "malloc", "threads": "exact"}},
        "campaign__subsets": {"library": ["allocations"]},
        "analysis__anchor": None,
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed), "--no-check")
    assert done.returncode == 0, done.stderr
    for trace in traces(tmp_path / "campaigns/phases", "library"):
        assert 60_000 <= trace["allocations"].sum() < 61_000
