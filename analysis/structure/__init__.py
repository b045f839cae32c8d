"""Which phases recur in a long trace, in which order, and how a second run differs: phase words.

"Structural analysis of measurement paths": elements become a sequence of classes, a dictionary of reference fragments (words) and the decomposition
of the sequence into fragments that come near to them are found together. Fragments are compared by insertions and deletions.
"""

from unperturbed.analysis.structure.adequacy import Adequacy, Null, adequacy_of
from unperturbed.analysis.structure.anchoring import phase_anchors
from unperturbed.analysis.structure.classes import Classes, MostUsed, Quantiles, Ranges
from unperturbed.analysis.structure.comparing import HabitualEdit, StructuralComparison, compare_structure
from unperturbed.analysis.structure.composition import Composition, Span, WordUse, compose
from unperturbed.analysis.structure.decomposition import Decomposition, decompose
from unperturbed.analysis.structure.description_length import DescriptionLength, description_length
from unperturbed.analysis.structure.dictionary import Dictionary, Round
from unperturbed.analysis.structure.distances import indel_distance, indel_distances
from unperturbed.analysis.structure.encoding import Word
from unperturbed.analysis.structure.kernel import Kernel, kernel
from unperturbed.analysis.structure.learning import learn_dictionary
from unperturbed.analysis.structure.monotone import learn_monotone
from unperturbed.analysis.structure.prototypes import medoids, nearest_prototype
from unperturbed.analysis.structure.sequence import StructuralSequence, letters_of, structural_sequence
from unperturbed.analysis.structure.telling import telling_metric
from unperturbed.analysis.structure.windows import first_decomposition

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
    "medoids",
    "nearest_prototype",
    "phase_anchors",
    "structural_sequence",
    "telling_metric",
]
