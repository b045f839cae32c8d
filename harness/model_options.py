"""What a model's author says beforehand, as `unperturbed model` is told it: a knowledge file and options of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from unperturbed.analysis.causal import Kind, read_definitions
from unperturbed.errors import SpecError
from unperturbed.harness.model_tables import Curve, Derivative, read_curve, read_named_derivative
from unperturbed.harness.model_words import Arrow, arrow, named_values, names_of, split
from unperturbed.harness.spec.errors import Diagnostic, InvalidSpec, Position, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Said", "said_by_options"]


@dataclass(frozen=True)
class Said:
    """What was said of a model beforehand.

    Attributes
    ----------
    tiers : tuple of tuples of str
        In the order of causes.
    required, forbidden : tuple of (source, target)
    inputs, outputs : tuple of str
    kinds : mapping of str to Kind
    derived : mapping of str to str
        Expressions of derived variables.
    logarithms : tuple of str
        Variables of which the logarithm is analysed in their place.
    variables : tuple of str
        Those that are analysed; all, if none is named.
    derivatives : mapping of str to Derivative
        Partial derivatives: steps of their parameter are then the rows.
    curves : tuple of Curve
        Whose parameters are variables: cells are then the rows.
    source : str
        The knowledge file, for messages. Empty where there is none.
    places : mapping of str to Position
        Where the file speaks of a column first.
    """

    tiers: tuple[tuple[str, ...], ...] = ()
    required: tuple[Arrow, ...] = ()
    forbidden: tuple[Arrow, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    logarithms: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    derivatives: Mapping[str, Derivative] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    source: str = ""
    places: Mapping[str, Position] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """Return the columns that are spoken of, each with what speaks of it first; expressions look after themselves."""
        found: dict[str, str] = {}
        lists: dict[str, Iterable[str]] = {
            "tiers": (name for tier in self.tiers for name in tier),
            "required": (name for edge in self.required for name in edge),
            "forbidden": (name for edge in self.forbidden for name in edge),
            "inputs": self.inputs,
            "outputs": self.outputs,
            "kinds": self.kinds,
            "log": self.logarithms,
            "derivatives": (name for one in self.derivatives.values() for name in (one.of, one.over)),
            "curves": (name for one in self.curves for name in (one.target, *one.over, *one.cells)),
            "variables": self.variables,
        }
        for what, names in lists.items():
            for name in names:
                found.setdefault(name, what)
        return found

    def check_names(self, known: Sequence[str]) -> None:
        """Raise SpecError where a column is spoken of that there is not."""
        unknown = [(name, what) for name, what in self.names().items() if name not in known]
        if not unknown:
            return
        told = [(name, f"{what}: {_unknown(name, known)}") for name, what in unknown]
        places = [(self.places.get(name), message) for name, message in told]
        in_file = [Diagnostic(place, message) for place, message in places if place is not None]
        if in_file:
            raise InvalidSpec(self.source, in_file)
        raise SpecError("; ".join(message for _, message in told))

    def joined(self, later: Said) -> Said:
        """Return both together; tiers, variables, kinds and expressions of the later one stand before those here."""
        return Said(
            tiers=later.tiers or self.tiers,
            required=(*self.required, *later.required),
            forbidden=(*self.forbidden, *later.forbidden),
            inputs=tuple(dict.fromkeys((*self.inputs, *later.inputs))),
            outputs=tuple(dict.fromkeys((*self.outputs, *later.outputs))),
            kinds={**self.kinds, **later.kinds},
            derived={**self.derived, **later.derived},
            logarithms=tuple(dict.fromkeys((*self.logarithms, *later.logarithms))),
            variables=later.variables or self.variables,
            derivatives={**self.derivatives, **later.derivatives},
            curves=tuple(dict.fromkeys((*self.curves, *later.curves))),
            source=self.source,
            places=self.places,
        )


def _unknown(name: str, known: Sequence[str]) -> str:
    meant = nearest(name, known)
    return f"the table has no column {name!r}; {f'{meant!r} is meant?' if meant else 'its columns are ' + ', '.join(known)}"


def said_by_options(
    *,
    derive: Sequence[str] = (),
    log: str | None = None,
    kinds: str | None = None,
    tiers: str | None = None,
    require: Sequence[str] = (),
    forbid: Sequence[str] = (),
    inputs: str | None = None,
    outputs: str | None = None,
    variables: str | None = None,
    derivative: Sequence[str] = (),
    curve: Sequence[str] = (),
) -> Said:
    """Read the options of the command line; each is the text that was given.

    Raises
    ------
    SpecError
        One that cannot be read, with what to write.
    """
    found = Said(
        derived=read_definitions(derive),
        logarithms=names_of(log, "--log") if log else (),
        tiers=tuple(names_of(tier, "--tiers") for tier in split(tiers, "/")) if tiers else (),
        required=tuple(arrow(part, "--require") for text in require for part in split(text, ",")),
        forbidden=tuple(arrow(part, "--forbid") for text in forbid for part in split(text, ",")),
        inputs=names_of(inputs, "--inputs") if inputs else (),
        outputs=names_of(outputs, "--outputs") if outputs else (),
        variables=names_of(variables, "--variables") if variables else (),
        derivatives=_derivatives(derivative),
        curves=tuple(read_curve(text, "--curve") for text in curve),
    )
    asked: dict[str, Kind] = {}
    for name, kind in (named_values(kinds, "--kinds", "optimisation=discrete,bytes=continuous") if kinds else {}).items():
        match kind:
            case "discrete" | "continuous":
                asked[name] = kind
            case _:
                raise SpecError(f"--kinds {kinds}: {name} is to be discrete or continuous, not {kind!r}")
    return replace(found, kinds=asked)


def _derivatives(texts: Sequence[str]) -> dict[str, Derivative]:
    found: dict[str, Derivative] = {}
    for text in texts:
        name, derivative = read_named_derivative(text, "--derivative")
        if name in found:
            raise SpecError(f"--derivative {text}: {name} is given twice")
        found[name] = derivative
    return found
