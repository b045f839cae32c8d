"""Where compiled code is kept, and when the compiler is loaded: both are seen from a process of its own."""

from pathlib import Path

from tests.processes.fresh import process
from unperturbed.analysis import compiling

COMPARE = """
from unperturbed.analysis.diagnosis.distances.blocks import abstract
from unperturbed.analysis.diagnosis.events import EventTrace
print(len(abstract(EventTrace.from_pairs([(0, "a"), (1, "b")]), [("a", "b")])))
"""


def test_importing_the_distances_does_not_load_the_compiler():
    modules = ("temporal", "blocks")
    code = "".join(f"import unperturbed.analysis.diagnosis.distances.{name}\n" for name in modules)
    code += "import sys\nprint('numba' in sys.modules)"
    assert process(code).stdout.strip() == "False"


def test_code_is_kept_in_the_users_cache_and_a_second_process_compiles_nothing_and_says_nothing(tmp_path):
    loud = "import logging; logging.basicConfig(level=logging.INFO, format='%(name)s: %(message)s')\n"
    logging_of_this_part = "logging.getLogger('numba').setLevel(logging.WARNING)\n"
    place = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path / "home")}
    first, again = (process(loud + logging_of_this_part + COMPARE, **place) for _ in range(2))
    assert first.stdout == again.stdout == "1\n"
    assert first.stderr.startswith(
        "unperturbed.analysis.diagnosis.distances: compiling cover of kernels: takes some seconds, only once; "
        "the code is kept in "
    )
    assert str(tmp_path / "cache" / "unperturbed") in first.stderr
    assert again.stderr == ""
    assert not (tmp_path / "home").exists()
    assert not list(Path(compiling.__file__).parent.rglob("kernels*.nb[ic]"))


def test_without_a_folder_to_write_to_it_compiles_each_time_and_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    loud = "import logging; logging.basicConfig(level=logging.INFO, format='%(name)s: %(message)s')\n"
    done = process(loud + COMPARE, HOME=str(tmp_path / "file"))
    assert "takes some seconds in every process, because the cache folder is not writable" in done.stderr
    assert done.stdout == "1\n"
