"""Phase words: the phases that recur in a long trace, their order, and how a second run differs.

The method is that of "Structural analysis of measurement paths". Elements become a sequence of classes. A dictionary of
reference fragments (words) and the decomposition of the sequence into fragments near these words are found together.
Fragments are compared by insertions and deletions.
"""

from unperturbed.analysis.structure.classes.classifiers import Classes, MostUsed, Quantiles, Ranges
from unperturbed.analysis.structure.composition import Composition, Span, WordUse, compose, structure
from unperturbed.analysis.structure.dictionary.adequacy import Adequacy, Null, adequacy_of
from unperturbed.analysis.structure.dictionary.description_length import DescriptionLength, description_length
from unperturbed.analysis.structure.dictionary.learning import Dictionary, learn_dictionary, learn_monotone
from unperturbed.analysis.structure.dictionary.monotone import Kernel, Round, kernel
from unperturbed.analysis.structure.differences import (
    HabitualEdit,
    StructuralComparison,
    compare_structure,
    phase_anchors,
)
from unperturbed.analysis.structure.segmentation import Decomposition, decompose, first_decomposition
from unperturbed.analysis.structure.sequence import (
    StructuralSequence,
    letters_of,
    most_discriminating_metric,
    structural_sequence,
)
from unperturbed.analysis.structure.symbols import (
    Word,
    indel_distance,
    indel_distances,
    nearest_prototype,
)
from unperturbed.common.faces import lazy_names

__all__ = [
    "Adequacy",
    "Classes",
    "Composition",
    "Decomposition",
    "DescriptionLength",
    "Dictionary",
    "HabitualEdit",
    "Kernel",
    "MostUsed",
    "Null",
    "Quantiles",
    "Ranges",
    "Round",
    "Span",
    "StructuralComparison",
    "StructuralSequence",
    "Word",
    "WordUse",
    "adequacy_of",
    "compare_structure",
    "compose",
    "decompose",
    "description_length",
    "first_decomposition",
    "indel_distance",
    "indel_distances",
    "kernel",
    "learn_dictionary",
    "learn_monotone",
    "letters_of",
    "most_discriminating_metric",
    "nearest_prototype",
    "phase_anchors",
    "structural_sequence",
    "structure",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.analysis.structure": "describe=phase_text",
        "unperturbed.analysis.structure.classes.classifiers": "class_letter",
        "unperturbed.analysis.structure.symbols": "medoids",
    },
)
