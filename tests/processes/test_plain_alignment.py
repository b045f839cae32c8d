"""The plain loop of the alignment kernels, taken where the one in LLVM's language does not compile."""

from tests.processes.fresh import process

FORCED = """
import logging
import numpy as np
from tests.analysis.alignment import naive
from tests.analysis.alignment.dtw.test_checkpoints import cost_alone, ordered_pair
from unperturbed.analysis.alignment.dtw import lanes

def refuse(loop):
    raise AttributeError("no such attribute")

lanes._Loop.write = refuse
logging.basicConfig(format="%(name)s: %(message)s")
for seed, (band, values) in enumerate([(None, 0), (None, 2), (3, 0), (40, 5)]):
    x, y = ordered_pair(np.random.default_rng(seed), 120, 1 + seed % 3, values)
    assert cost_alone(x, y, 0.5, band) == naive.dtw(x, y, 0.5, band)[1]
print("the same")
"""


def test_where_the_vector_loop_does_not_compile_the_plain_one_gives_the_same_costs_and_is_kept(tmp_path):
    place = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    first = process(FORCED, **place)
    assert first.stdout == "the same\n"
    assert first.stderr.startswith(
        "unperturbed.analysis.alignment.dtw: cannot compile the vector loop of the alignment kernel pair_costs for "
        "float64 (no such attribute)"
    )
    again = process(FORCED, **place)
    assert (again.stdout, again.stderr) == ("the same\n", "")
