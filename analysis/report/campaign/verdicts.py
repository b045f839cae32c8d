"""Top of the report: the campaign's result in one sentence, and a card and advice for each configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import is_simulated, meaning
from unperturbed.analysis.pages.document import definitions, moment, page_header, section
from unperturbed.analysis.perturbation import (
    SEVERITY,
    VERDICT_MEANINGS,
    VERDICT_SIGNS,
    change_sentence,
    overhead_words,
    runs_advice,
)
from unperturbed.analysis.perturbation.verdict_text import cause_table
from unperturbed.analysis.report.campaign.content import described_metrics
from unperturbed.analysis.report.campaign.setups import (
    SECOND,
    all_setups,
    first_name,
    setup_advice,
    setup_meaning,
    setups_sentence,
    what_shows,
)
from unperturbed.analysis.totals.total_text import totals_advice
from unperturbed.common.markup import Html, tag, text
from unperturbed.common.wording import correlation, counted, duration, first_of, listing, percent

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import CheckName, VerdictName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportContent

_NAMED = 6
"""Maximum number of names that a sentence lists."""
_SEPARATE_SITES = (
    "The no-ops change the program, or the code that the compiler generates around them. Give the metrics of most "
    "no-ops a build of their own (`families`), or let `unperturbed partition` find builds by trial. If a metric "
    "changes the program by itself, count a rarer event with the same information."
)
"""Advice where one build changes the program without counting."""
_FURTHER: tuple[tuple[CheckName, str], ...] = (
    ("software", "With software metrics"),
    ("across", "Across runs, pairs of different metrics"),
)


def badge(verdict: VerdictName) -> Html:
    """Return a verdict's sign and word."""
    return tag(
        "span", tag("span", VERDICT_SIGNS[verdict], aria_hidden="true"), f" {verdict}", class_=f"badge {verdict}"
    )


def top(content: ReportContent, results: Sequence[ConfigurationResult]) -> Html:
    """Return the page's header: name, answer, doubts, failures, source of the counters."""
    return page_header(
        "Unperturbed: do the metrics of these set-ups correlate alike?"
        if all_setups(results)
        else "Unperturbed: which numbers did measuring change?",
        content.campaign,
        tag("p", campaign_sentence([result for result in results if not result.is_sham], content), class_="answer"),
        doubts(content),
        failures(content),
        simulated_banner(content),
    )


def doubts(content: ReportContent) -> Html | None:
    """Return a banner with reasons to distrust the baseline, with which all configurations are compared."""
    if not content.doubts:
        return None
    return tag(
        "aside",
        tag("strong", f"{VERDICT_SIGNS['undecided']} Doubts about the baseline: "),
        content.doubts[0] if len(content.doubts) == 1 else tag("ul", [tag("li", said) for said in content.doubts]),
        class_="banner doubts",
        aria_label="Doubts about the baseline",
    )


def facts_section(content: ReportContent, data: Html | None) -> Html:
    """Return the section on the campaign: facts, notes, and a button that saves all numbers."""
    notes = [tag("p", note, class_="note") for note in content.notes]
    return section("campaign", "The campaign", headline_facts(content, data), notes)


def headline_facts(content: ReportContent, data: Html | None = None) -> Html:
    """Return the most important facts about a campaign, and the button `data`."""
    head, settings = content.headline, content.settings
    failed = sum(row.state == "failed" for row in content.runs)
    runs = counted(sum(row.state == "done" for row in content.runs), "run")
    lost = f" ({counted(failed, 'attempt')} failed)" if failed else ""
    facts: list[tuple[str, Html | str | None]] = [
        ("Program", head.program),
        (
            "A, the baseline" if SECOND in content.setups else "Command",
            tag("code", head.command) if head.command else "",
        ),
        *((name, tag("code", other)) for name, other in content.setups.items()),
        ("Runs", f"{runs}{lost}" if content.runs else ""),
        ("Measured for", duration(head.seconds) if head.seconds is not None else ""),
        ("Sampling interval", settings.interval),
        ("Counters", content.source.name),
        ("Tolerance", f"ρ may change by ±{correlation(settings.tolerance)}"),
        ("Host", head.host),
        ("Started", moment(head.started)),
        ("Unperturbed", head.version),
        ("All numbers", data),
    ]
    return definitions(((name, value) for name, value in facts if value), "facts")


def simulated_banner(content: ReportContent) -> Html:
    """Return the source of the counters in one line; the reason for its choice is folded below."""
    simulated = [name for name, metric in described_metrics(content).items() if is_simulated(metric)]
    if not (content.source.simulated or simulated):
        said = tag("strong", f"Counters: {content.source.name}.")
        if not content.source.sentence:
            return tag("p", said, class_="source")
        return tag("details", tag("summary", said), tag("p", content.source.sentence), class_="source")
    return tag(
        "details",
        tag(
            "summary",
            tag("strong", "⚠ Simulated counters: "),
            "a model of a processor computed these numbers; they are not hardware counts.",
        ),
        tag("p", content.source.sentence),
        class_="banner source",
        aria_label="Simulated counters",
    )


def failures(content: ReportContent) -> Html | None:
    """Return a banner with the runs that have no result."""
    if not content.failures:
        return None
    return tag(
        "aside",
        tag("strong", f"✗ {counted(len(content.failures), 'failure')}: "),
        "the verdicts do not include these runs.",
        tag("ul", [tag("li", failure) for failure in content.failures]),
        class_="banner failures",
        aria_label="Failures",
    )


def result_section(content: ReportContent, results: Sequence[ConfigurationResult]) -> Html:
    """Return the section with a legend of the four verdicts and a card for each configuration."""
    if not results:
        said = (
            "There was nothing to check, or no configuration has enough finished runs. See the notes, the failures "
            "and the table of runs."
        )
        tables = [table.to_html(sortable=True) for table in content.correlations]
        return section("verdicts", "Verdicts", tag("p", said, class_="empty"), tables)
    most_serious_first = sorted(enumerate(results), key=lambda pair: SEVERITY.index(pair[1].verdict))
    cards = [_card(place, result, content) for place, result in most_serious_first]
    style = "cards even" if len(results) in {2, 4} else "cards"
    causes = _causes(content)
    return section("verdicts", "Verdicts", verdict_legend(VERDICT_SIGNS), causes, tag("div", cards, class_=style))


def _causes(content: ReportContent) -> list[Html]:
    """Return what changes the program: the rewriting, with the instructions that it adds, or the counting."""
    made: list[Html] = [cause_table(content.verdicts, content.counting).to_html()] if content.counting else []
    for name, rewriting in content.rewriting.items():
        made += [tag("p", sentence) for sentence in rewriting.sentences(name)]
        made.append(rewriting.table(name).to_html(sortable=True))
    return made


def verdict_legend(verdicts: Iterable[VerdictName], *more: Html) -> Html:
    """Return a legend with the meaning of each verdict, in the given order, and further entries."""
    entries = [tag("li", badge(verdict), f" {VERDICT_MEANINGS[verdict]}") for verdict in verdicts]
    return tag("ul", entries, *more, class_="legend")


def _card(place: int, result: ConfigurationResult, content: ReportContent) -> Html:
    added_to = first_name(result) if result.setup else " and ".join(result.references)
    return tag(
        "article",
        tag("h3", result.configuration, " ", badge(result.verdict)),
        tag("p", result_sentence(result), class_="means"),
        None if result.setup else tag("p", tag("b", "Software metrics: "), _software(result, content)),
        tag(
            "div",
            tag("b", f"{'Difference from' if result.setup else 'Added to'} {added_to}:"),
            # Times of simulated runs say nothing; native ones are among the totals.
            definitions([word for word in overhead_words(result.overhead) if word[1] != percent(None)], "added"),
            class_="overhead",
        ),
        _check("inner", "Within a run", result),
        _check("outer", "Across runs", result),
        *(_check(check, name, result) for check, name in _FURTHER if result.of(check)),
        id=f"card-{place}",
        class_=f"card {result.verdict}",
        data_configuration=result.configuration,
    )


def _software(result: ConfigurationResult, content: ReportContent) -> Html:
    if not result.software:
        return text("none")
    described = described_metrics(content)
    names = [
        [tag("code", name, title=meaning(name, described)), " (anchor)" if name == content.settings.anchor else ""]
        for name in result.software
    ]
    return text([[", " if place else "", name] for place, name in enumerate(names)])


def _check(check: CheckName, name: str, result: ConfigurationResult) -> Html:
    verdict, worst = result.check_verdict(check), result.worst(check)
    if verdict is None or worst is None:
        return tag("p", tag("b", f"{name}: "), "not checked", class_="check")
    rank = {
        "perturbed": "Worst",
        "shifted": "Largest shift",
        "undecided": "Largest undecided",
        "unperturbed": "Nearest to the tolerance",
    }[worst.verdict]
    return tag(
        "div",
        tag(
            "p",
            tag("span", VERDICT_SIGNS[verdict], class_=f"sign {verdict}"),
            tag("b", f"{name}: "),
            check_sentence(result, check),
        ),
        tag("p", f"{rank}: {change_sentence(worst, result.bound_alpha)}.", class_="worst"),
        class_="check",
    )


def campaign_sentence(results: Sequence[ConfigurationResult], content: ReportContent | None = None) -> str:
    """Return the campaign's result: a sentence on correlations and one on totals that changed, or some on each set-up.

    Without `content`, nothing is said on totals.
    """
    if all_setups(results):
        return setups_sentence(results, content)
    changed = [
        result.configuration
        for result in results
        if content is not None
        and any(change.verdict == "perturbed" for change in content.totals.get(result.configuration, ()))
    ]
    names = listing(changed) if len(changed) <= _NAMED else first_of(changed, _NAMED)
    totals = f" Totals changed by more than the tolerance in {names}." if changed else ""
    return f"{_correlations_sentence(results)}{totals}"


def _correlations_sentence(results: Sequence[ConfigurationResult]) -> str:
    """Return what measuring did to correlations, in one sentence."""
    if not results:
        return (
            "No verdict: there was nothing to check, or no configuration has enough finished runs. The "
            "notes and the failures show the reason."
        )
    names = {
        verdict: [result.configuration for result in results if result.verdict == verdict] for verdict in VERDICT_SIGNS
    }
    if len(names["unperturbed"]) == len(results):
        subject = f"{results[0].configuration} is" if len(results) == 1 else f"All {len(results)} configurations are"
        return f"{subject} unperturbed: measuring did not change how the program's metrics move together."
    if len(names["perturbed"]) == len(results) == 1:
        return f"{results[0].configuration} is perturbed: measuring changed how the program's metrics move together."
    if names["perturbed"]:
        least = "at least " if names["shifted"] or names["undecided"] else ""
        lead = (
            f"Measuring changed how metrics move together in {least}{len(names['perturbed'])} of "
            f"{counted(len(results), 'configuration')}: {_are(names.pop('perturbed'), 'perturbed')}"
        )
    elif names["shifted"]:
        shifted = [change for result in results for change in result.having("shifted")]
        lead = (
            "No correlation was shown to change by more than the tolerance, but "
            f"{_are(names.pop('shifted'), 'shifted')}: correlations changed, and {what_shows(shifted)} whether by more"
        )
    else:
        lead = f"No correlation was shown to change, but {listing(names.pop('undecided'))} remained undecided"
    rest = [_are(names[verdict], verdict) for verdict in reversed(SEVERITY) if names.get(verdict)]
    return f"{lead}; {listing(rest)}." if rest else f"{lead}."


def _are(names: Sequence[str], verdict: str) -> str:
    if len(names) > _NAMED:
        return f"{f'{len(names)} others' if verdict == 'unperturbed' else first_of(names, _NAMED)} are {verdict}"
    return f"{listing(names)} {'is' if len(names) == 1 else 'are'} {verdict}"


def check_sentence(result: ConfigurationResult, check: str) -> str:
    """Return the result of one check of a configuration: `36 pairs: 2 perturbed, 5 undecided and 29 unperturbed`."""
    changes = [change for change in result.changes if change.check == check]
    if not changes:
        return "not checked"
    noun = "metric" if check == "outer" else "pair"
    counts = {verdict: sum(change.verdict == verdict for change in changes) for verdict in VERDICT_SIGNS}
    if counts["unperturbed"] == len(changes):
        return f"all {counted(len(changes), noun)} unperturbed"
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICT_SIGNS if counts[verdict]]
    return f"{counted(len(changes), noun)}: {listing(parts)}"


_MEANS: Mapping[VerdictName, str] = {
    "unperturbed": "Its metrics can be collected together, and its runs can be compared with other runs.",
    "shifted": "A change was shown, but these runs do not show whether it exceeds the tolerance.",
    "undecided": "No change was shown, but these runs cannot exclude a change larger than the tolerance.",
}


def result_sentence(result: ConfigurationResult) -> str:
    """Return one sentence on what the verdict on a configuration means for the user."""
    if result.setup:
        return setup_meaning(result)
    inner, outer = result.check_verdict("inner"), result.check_verdict("outer")
    if result.verdict != "perturbed":
        return _MEANS[result.verdict]
    if inner == "perturbed" and outer == "perturbed":
        return "Its hardware metrics do not describe the original program, either within a run or across runs."
    if outer == "perturbed":
        return "Its runs cannot be compared with the reference runs interval by interval."
    if inner != "perturbed":
        return "Its software metrics correlate with other metrics differently than when fewer metrics are collected."
    return "Within its runs, hardware metrics correlate differently than in the original program."


def advice(result: ConfigurationResult, content: ReportContent) -> tuple[str, ...]:
    """Return advice on a configuration's verdicts, on correlations and then on totals, one sentence each."""
    name, changes = result.configuration, content.totals.get(result.configuration, ())
    reference = first_name(result) if result.setup else first_of(result.references, 1) or "baseline"
    of_totals = totals_advice(name, changes, reference, setup=bool(result.setup))
    if result.verdict == "unperturbed":
        if of_totals:
            valid = f"are valid for {reference} too" if result.setup else "are those of the program: use them"
            return (f"The correlations of {name} {valid}.", *of_totals)
        said = f"Nothing: measurements of {name} are valid for {reference} too."
        return (said if result.setup else "Nothing: use the numbers of these runs.",)
    if result.verdict != "perturbed":
        return (*_advice_open(result, content), *of_totals)
    return (*(setup_advice(result) if result.setup else _advice_perturbed(result, content)), *of_totals)


def _advice_perturbed(result: ConfigurationResult, content: ReportContent) -> tuple[str, ...]:
    if result.is_ready:
        return (_SEPARATE_SITES,)
    if result.is_sham:
        return (
            "A sham does not count, so the change comes from the rewritten code. With `layouts: varied`, the effect of "
            "the layout becomes part of the variation between runs.",
        )
    anchor = content.settings.anchor
    origins = {change.origin for change in result.having("perturbed")}
    own = [name for name in result.software if name != anchor]
    said = [f"Take the hardware metrics from the {listing(result.references)} runs, not from these runs."]
    alone = content.counting.get(result.configuration)
    if alone is not None and alone.verdict == "unperturbed":
        return (*said, f"The counting changes no correlation by more than the tolerance. {_SEPARATE_SITES}")
    if anchor is not None and not own:
        said.append(f"Choose a cheaper anchor than {anchor}: every other configuration contains it too.")
    elif len(own) > 1:
        said.append(f"Collect {listing(own)} in separate runs (one subset each in the spec), and check again.")
    elif own:
        said.append(
            f"{own[0]} perturbs by itself: count a rarer event instead, or do not combine it with hardware metrics."
        )
    if content.counting and "layout" in origins:
        said.append(_SEPARATE_SITES)
    elif "layout" in origins and origins <= {"layout", "unclear", None}:
        said.append(
            "The sham build shows the same change: it comes from the layout of the code or the no-ops that replace "
            "the increments, not from the counting. With `layouts: varied`, the effect of the layout becomes part of "
            "the variation between runs."
        )
    if result.check_verdict("inner") == "unperturbed":
        said.append("Within a run, nothing is perturbed: use each run by itself, but do not merge it with other runs.")
    return tuple(said)


def _advice_open(result: ConfigurationResult, content: ReportContent) -> tuple[str, ...]:
    looks = content.looks
    if looks is not None and result.configuration not in looks.decided:
        if looks.planned[-1] in looks.made:
            return (
                "The campaign has made all its runs: another one with a larger `at_most` (--max-runs) than "
                f"{looks.planned[-1]} may decide more.",
            )
        return (f"Let the campaign go on: it makes at most {looks.planned[-1]} runs of each configuration.",)
    judged = max((len(change.observed_runs) for change in result.changes), default=None)  # the spec may have changed
    said = () if looks is not None else runs_advice(result.changes, judged)
    return said or (
        "More runs alone cannot decide this: quiet the host, lengthen the program's run, or accept a wider tolerance.",
    )
