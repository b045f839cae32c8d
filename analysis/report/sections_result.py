"""The top of the page: what the campaign showed, in one sentence and one card a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.report.markup import Html, tag, text
from unperturbed.analysis.report.names import described_metrics, is_simulated, meaning
from unperturbed.analysis.report.words import (
    SYMBOL,
    VERDICT_MEANING,
    advice,
    campaign_sentence,
    change_sentence,
    check_sentence,
    duration,
    overhead_words,
    plural,
    result_sentence,
    rho,
)

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation.verdict import CheckName, VerdictName
    from unperturbed.analysis.report.content import ReportContent
    from unperturbed.analysis.report.results import Result

_FURTHER: tuple[tuple[CheckName, str], ...] = (("software", "With software metrics"), ("across", "Across runs, other metrics"))

__all__ = ["badge", "failures", "headline_facts", "result_section", "simulated_banner", "top"]


def badge(verdict: VerdictName) -> Html:
    """Return a verdict's sign and word."""
    return tag("span", tag("span", SYMBOL[verdict], aria_hidden="true"), f" {verdict}", class_=f"badge {verdict}")


def top(content: ReportContent, found: Sequence[Result]) -> Html:
    """Return the page's head: name, answer, question, facts, and what must not be overlooked."""
    return tag(
        "header",
        tag("p", "Unperturbed: which numbers has measuring changed?", class_="kicker"),
        tag("h1", content.campaign),
        tag("p", campaign_sentence([result for result in found if not result.is_sham]), class_="answer"),
        _chips(found),
        _question(content),
        headline_facts(content),
        simulated_banner(content),
        failures(content),
        [tag("p", note, class_="note") for note in content.notes],
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables too.", class_="note")),
    )


def _chips(found: Sequence[Result]) -> Html | None:
    chips = [
        tag("li", tag("a", tag("b", result.configuration), " ", badge(result.verdict), href=f"#card-{place}"))
        for place, result in by_weight(found)
    ]
    return tag("ul", chips, class_="chips", aria_label="Verdict of each configuration") if chips else None


def by_weight(found: Sequence[Result]) -> list[tuple[int, Result]]:
    """Return the results with their places, perturbed ones first, unperturbed ones last."""
    order = list(SYMBOL)
    return sorted(enumerate(found), key=lambda pair: order.index(pair[1].verdict))


def _question(content: ReportContent) -> Html:
    program = content.headline.program or "The program"
    finished = sum(row.state == "done" for row in content.runs)
    times = f" {finished} times" if finished else ""
    return tag(
        "p",
        f"{program} was run{times}: partly with nothing but hardware metrics counted (the baseline), partly with counters for events "
        "in its own code built in (the configurations). Where these change how hardware metrics rise and fall together, "
        "the runs show a program that measuring has changed, not the one that you wanted to know.",
        class_="lead",
    )


def headline_facts(content: ReportContent) -> Html:
    """Return the few facts that a reader wants before all others."""
    head, settings = content.headline, content.settings
    failed = sum(row.state == "failed" for row in content.runs)
    runs = plural(sum(row.state == "done" for row in content.runs), "run")
    lost = f" ({plural(failed, 'attempt')} failed)" if failed else ""
    facts = [
        ("Program", head.program),
        ("Command", tag("code", head.command) if head.command else ""),
        ("Runs", f"{runs}{lost}" if content.runs else ""),
        ("Measured for", duration(head.seconds) if head.seconds is not None else ""),
        ("Sampling interval", settings.interval),
        ("Counters", content.source.name),
        ("Tolerance", f"ρ may change by ±{rho(settings.tolerance)}"),
        ("Host", head.host),
        ("Started", head.started),
        ("Unperturbed", head.version),
    ]
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value], class_="facts")


def simulated_banner(content: ReportContent) -> Html:
    """Say what counted, and say loudly where a model of a processor did."""
    simulated = [name for name, metric in described_metrics(content).items() if is_simulated(metric)]
    if not (content.source.simulated or simulated):
        return tag("p", tag("strong", f"Counters: {content.source.name}. "), content.source.sentence, class_="source")
    return tag(
        "aside",
        tag("strong", "⚠ Simulated counters. "),
        "The cache, branch and cycle numbers on this page were computed by a model of a processor; no hardware counted them. ",
        content.source.sentence,
        class_="banner",
        aria_label="Simulated counters",
    )


def failures(content: ReportContent) -> Html | None:
    """Return the runs that stayed without a result."""
    if not content.failures:
        return None
    return tag(
        "aside",
        tag("strong", f"✕ {plural(len(content.failures), 'failure')}: "),
        "what these would have given is missing from the verdicts.",
        tag("ul", [tag("li", failure) for failure in content.failures]),
        class_="banner failures",
        aria_label="Failures",
    )


def result_section(content: ReportContent, found: Sequence[Result]) -> Html:
    """Return one card for each configuration, below the meaning of the three verdicts."""
    if not found:
        said = "There was nothing to check, or no configuration has enough finished runs; see the notes, the failures and the runs below."
        return tag("section", tag("h2", "Verdicts"), tag("p", said, class_="empty"), id="verdicts")
    cards = [_card(place, result, content) for place, result in by_weight(found)]
    legend = [tag("li", badge(verdict), f" {VERDICT_MEANING[verdict]}") for verdict in SYMBOL]
    return tag(
        "section",
        tag("h2", "Verdicts"),
        tag("ul", legend, class_="legend"),
        tag("div", cards, class_="cards even" if len(found) in {2, 4} else "cards"),
        id="verdicts",
    )


def _card(place: int, result: Result, content: ReportContent) -> Html:
    added = [tag("div", tag("dt", what), tag("dd", much)) for what, much in overhead_words(result.overhead)]
    return tag(
        "article",
        tag("h3", result.configuration, " ", badge(result.verdict)),
        tag("p", result_sentence(result), class_="means"),
        tag("p", tag("b", "Software metrics in it: "), _software(result, content)),
        tag(
            "div", tag("b", f"Added to {' and '.join(result.references)}:"), tag("dl", added, class_="added"), class_="overhead"
        ),
        _check("inner", "Within a run", result),
        _check("outer", "Across runs", result),
        *(_check(check, name, result) for check, name in _FURTHER if result.of(check)),
        tag("div", tag("b", "What to do"), tag("ul", [tag("li", said) for said in advice(result, content)]), class_="advice"),
        id=f"card-{place}",
        class_=f"card {result.verdict}",
        data_configuration=result.configuration,
    )


def _software(result: Result, content: ReportContent) -> Html:
    if not result.software:
        return text("none")
    described = described_metrics(content)
    names = [
        [tag("code", name, title=meaning(name, described)), " (anchor)" if name == content.settings.anchor else ""]
        for name in result.software
    ]
    return text([[", " if place else "", name] for place, name in enumerate(names)])


def _check(check: CheckName, name: str, result: Result) -> Html:
    verdict, worst = result.check_verdict(check), result.worst(check)
    if verdict is None or worst is None:
        return tag("p", tag("b", f"{name}: "), "not checked", class_="check")
    rank = {"perturbed": "Worst", "undecided": "Widest open", "unperturbed": "Nearest to the tolerance"}[worst.verdict]
    return tag(
        "div",
        tag("p", tag("span", SYMBOL[verdict], class_=f"sign {verdict}"), tag("b", f"{name}: "), check_sentence(result, check)),
        tag("p", f"{rank}: {change_sentence(worst, result.alpha)}.", class_="worst"),
        class_="check",
    )
