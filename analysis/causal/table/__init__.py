"""The table that a causal model is learnt from: columns as variables, and prior knowledge of them."""

from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge
from unperturbed.analysis.causal.table.variables import (
    Category,
    Codes,
    Data,
    Exclusion,
    Floats,
    Kind,
    Variable,
    gaps,
    is_text,
    prepare,
)

__all__ = [
    "Arrow",
    "Category",
    "Codes",
    "Data",
    "Exclusion",
    "Floats",
    "Kind",
    "Knowledge",
    "Variable",
    "gaps",
    "is_text",
    "prepare",
]
