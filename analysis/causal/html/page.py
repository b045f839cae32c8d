"""HTML page of a causal model: its graph, and the curve and data of every node and edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from unperturbed.analysis.causal import causal_order
from unperturbed.analysis.causal.html.figures import variable_figure
from unperturbed.analysis.causal.html.graph import graph_svg, regression_id
from unperturbed.analysis.causal.model_text import (
    claims_table,
    curve_table,
    edges_table,
    markov_sentences,
    p_text,
    parameters_table,
    separation_sentence,
    summary_sentence,
    undecided,
    variables_table,
)
from unperturbed.analysis.pages.document import choice, definitions, document, frame, navigation, page_header
from unperturbed.common.markup import Html, HtmlCell, table, tag
from unperturbed.common.wording import counted, listing, number

if TYPE_CHECKING:
    from unperturbed.analysis.causal import (
        CausalModel,
        CurveParameters,
        Exclusion,
        MarkovCheck,
        Mechanism,
        ScreeningOff,
    )

_PARAMETERS_SHOWN = 60
_CELLS_NAMED = 3


def render_model(
    model: CausalModel,
    *,
    name: str = "table",
    left_out: Sequence[Exclusion] = (),
    notes: Sequence[str] = (),
    derived: Mapping[str, str] | None = None,
    curves: Sequence[CurveParameters] = (),
    markov: MarkovCheck | None = None,
    screenings: Sequence[ScreeningOff] = (),
) -> str:
    """Return a causal model as one HTML document, self-contained like the report.

    Parameters
    ----------
    model : CausalModel
        The model.
    name : str
        Name of the table, for the title.
    left_out : sequence of Exclusion
        Columns that were not passed to the analysis; the model lists those that it rejected itself.
    notes : sequence of str
        Remarks on the table for the reader.
    derived : mapping of str to str
        Expressions of derived variables, by name.
    curves : sequence of CurveParameters
        Curves whose parameters are columns of the table.
    markov : MarkovCheck, optional
        Result of the model's Markov check.
    screenings : sequence of ScreeningOff
        Results of screening-off tests.
    """
    open_ends = undecided(model)
    edges = edges_table(model, link=f"#{regression_id('')}").to_html(identity="edges-table", sortable=True)
    header = page_header(
        "Unperturbed: what causes what, and by which formula?",
        name,
        tag("p", summary_sentence(model), class_="answer"),
        [tag("p", note, class_="note") for note in notes],
        without_scripts="Curves need JavaScript. The graph, all formulas and numbers do not.",
    )
    sections = [
        _section("graph", "The graph", _graph(model)),
        _section("edges", "Edges", [edges]),
        _section("formulas", "Formulas", _formulas(model)),
    ]
    if curves:
        sections.append(_section("curves", "The curves behind these parameters", [_curve(curve) for curve in curves]))
    if model.equivalences:
        sections.append(
            _section("equivalences", "Variables with the same information", [_sentences(map(str, model.equivalences))])
        )
    if open_ends:
        sections.append(_section("undecided", "Undecided", [_sentences(open_ends)]))
    if markov is not None or screenings:
        sections.append(_section("checks", "Does the model agree with the data?", _checks(markov, screenings)))
    sections += [
        _section("separations", "Why other edges are missing", _separations(model)),
        _section("variables", "Variables", _variables(model, left_out, derived or {})),
        _section("settings", "Background knowledge and method", [_settings(model)]),
    ]
    script = resources.files(__package__).joinpath("model.js").read_text(encoding="utf-8")
    return document(
        f"{name}: causal model",
        navigation([(identity, heading) for identity, heading, _ in sections]),
        header,
        tag("main", [markup for _, _, markup in sections]),
        Html(f"<script>{script}</script>"),
    )


def _section(identity: str, heading: str, content: Sequence[Html]) -> tuple[str, str, Html]:
    return identity, heading, tag("section", tag("h2", heading), content, id=identity)


def _sentences(sentences: Iterable[str]) -> Html:
    return tag("ul", [tag("li", sentence) for sentence in sentences])


def _graph(model: CausalModel) -> list[Html]:
    key = [
        tag("li", "wider line: stronger dependence"),
        tag("li", "dashed line: found in fewer than 90 % of the subsamples; dotted: in fewer than half"),
        tag("li", "grey line: edge by definition"),
        tag("li", "brown line with a ring at each end: direction open"),
        tag("li", "rounded box: discrete variable"),
    ]
    sentence = (
        "Causes are to the left of their effects. Click an edge or a variable to see its curve, data and formula."
    )
    regressions = [_regression(model, name, at) for at, name in enumerate(model.data.names) if name in model.mechanisms]
    last = [name for name in _order(model) if model.parents(name)]
    first = model.data.names.index(last[-1]) if last else 0
    return [
        tag("p", sentence),
        graph_svg(model),
        tag("ul", key, class_="legend"),
        tag("div", regressions, id="regressions", data_first=first, aria_live="polite"),
    ]


def _regression(model: CausalModel, name: str, at: int) -> Html:
    mechanism = model.mechanisms[name]
    shown = variable_figure(model, name, at)
    causes = f"from {listing(list(mechanism.parents))}" if mechanism.parents else "without causes"
    control = choice(f"model-{at}", "Show", shown.views, shown.views[0][0]) if len(shown.views) > 1 else None
    return tag(
        "article",
        tag("h3", name, " ", tag("small", causes)),
        tag("pre", mechanism.formula),
        control,
        frame(shown.figure, " ".join(shown.notes) or None),
        _parameters(mechanism),
        id=regression_id(at),
        data_variable=at,
    )


def _parameters(mechanism: Mechanism) -> Html:
    inner = parameters_table(mechanism, most=_PARAMETERS_SHOWN, places=_CELLS_NAMED).to_html()
    return tag("details", tag("summary", counted(len(mechanism.parameters), "fitted number")), inner)


def _order(model: CausalModel) -> list[str]:
    return causal_order({name: mechanism.parents for name, mechanism in model.mechanisms.items()})


def _formulas(model: CausalModel) -> list[Html]:
    rows = []
    for name in _order(model):
        mechanism = model.mechanisms[name]
        if mechanism.parents:
            rows.append(
                [name, tag("code", mechanism.formula), number(mechanism.bits, 4), f"{len(mechanism.parameters)}"]
            )
    caption = (
        "Formula of each variable from its causes: the candidate with the shortest description, in bits. [condition] "
        "is 1 where the condition holds and 0 elsewhere; ± is the standard deviation of the residuals"
    )
    return [tag("div", table(caption, ("variable", "formula", "bits", "fitted numbers"), rows), class_="wordy")]


def _curve(curve: CurveParameters) -> Html:
    return tag("div", tag("pre", curve.mechanism.formula), curve_table(curve).to_html(), class_="tall wordy")


def _checks(markov: MarkovCheck | None, screenings: Sequence[ScreeningOff]) -> list[Html]:
    shown = []
    if markov is not None:
        shown += [tag("h3", "Markov check"), _sentences(markov_sentences(markov))]
        if markov.claims:
            shown.append(tag("div", claims_table(markov).to_html(), class_="tall wordy"))
    if screenings:
        shown += [tag("h3", "Screening off"), _sentences(map(str, screenings))]
    return shown


def _separations(model: CausalModel) -> list[Html]:
    rows = [
        (
            f"{separation.one}, {separation.other}",
            ", ".join(separation.given) or "nothing",
            HtmlCell(p_text(separation.p_value), separation.p_value),
            separation_sentence(separation, model.settings.alpha),
        )
        for separation in model.separations
    ]
    shown = []
    if rows:
        caption = "Pairs without an edge, and the variables that separate them"
        shown.append(tag("div", table(caption, ("pair", "held fixed", "p", "reason"), rows), class_="tall wordy"))
    names = len(model.data.names)
    apart = names * (names - 1) // 2 - len(model.separations) - len(model.edges)
    if apart > 0:
        pairs = counted(apart, "further pair")
        shown.append(tag("p", f"{pairs} not tested: background knowledge rules out an edge."))
    return shown


def _variables(model: CausalModel, left_out: Sequence[Exclusion], derived: Mapping[str, str]) -> list[Html]:
    shown = [variables_table(model, derived).to_html()]
    excluded = [(exclusion.name, exclusion.why) for exclusion in (*model.exclusions, *left_out)]
    if excluded:
        shown.append(tag("div", table("Excluded columns", ("column", "reason"), excluded), class_="wordy"))
    dropped = len(model.data.dropped_rows)
    if dropped:
        lacking = listing([f"{name} ({count})" for name, count in model.data.missing.items()])
        shown.append(tag("p", f"{counted(dropped, 'row')} dropped because of missing values: {lacking}."))
    return shown


def _settings(model: CausalModel) -> Html:
    known, settings = model.knowledge, model.settings
    facts = {
        "tiers": " / ".join(", ".join(tier) for tier in known.tiers),
        "required edges": ", ".join(f"{source} → {other}" for source, other in known.required),
        "forbidden edges": ", ".join(f"{source} → {other}" for source, other in known.forbidden),
        "inputs": ", ".join(known.inputs),
        "outputs": ", ".join(known.outputs),
        "definitions": "; ".join(f"{name} from {', '.join(parts)}" for name, parts in known.definitions.items()),
        "test": settings.test,
        "alpha": f"{settings.alpha:g}",
        "largest conditioning set": f"{settings.depth}",
        "subsamples": f"{settings.subsamples}",
        "seed": f"{settings.seed}",
    }
    return definitions(((what, value or "none") for what, value in facts.items()), "provenance")
