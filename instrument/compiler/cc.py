"""Single compiler commands with counters: `unperturbed cc --metrics FILE -- gcc -O2 -c x.c`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from unperturbed.errors import SpecError
from unperturbed.instrument.command_line import parse_command
from unperturbed.instrument.compiler import wrapper
from unperturbed.instrument.compiler.settings import ToolchainSettings, read_settings
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events.event import Event, parse_event
from unperturbed.instrument.events.targets import last_part
from unperturbed.instrument.files import write_whole
from unperturbed.instrument.finding.site_log import SiteReport, read_sites
from unperturbed.instrument.missing import metrics_without_site

TOTALS = "UNPERTURBED_TOTALS"
"""Environment variable: file to which a program linked by `unperturbed cc` appends its counts when it ends."""

_TOTALS_SOURCE = """\
/* If @VARIABLE@ is set, writes the counts when the program ends, one line per metric. Runs once, after all else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void unperturbed_read_software(int64_t *value, uint32_t software) __attribute__((weak));

static const char *const name[] = {@NAMES@};
enum { METRICS = sizeof name / sizeof *name };
static pid_t owner;

__attribute__((constructor)) static void begin(void) { owner = getpid(); }

__attribute__((destructor(101))) static void write_totals(void)
{
    const char *path = getenv("@VARIABLE@");
    if (!path || !*path || getpid() != owner || !unperturbed_read_software)
        return;
    FILE *file = fopen(path, "a");
    if (!file) {
        perror("unperturbed: @VARIABLE@");
        return;
    }
    int64_t value[METRICS] = {0};
    unperturbed_read_software(value, METRICS);
    for (uint32_t metric = 0; metric < METRICS; metric++)
        if (name[metric])
            fprintf(file, "%s %lld\\n", name[metric], (long long)value[metric]);
    fclose(file);
}
"""


class _RepeatedKeyError(Exception):
    """A mapping has a duplicate key. The message starts with line and column."""


class _Loader(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys; PyYAML's own loader takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[tuple[str, str], yaml.Mark] = {}
        for key, _ in node.value:
            mark, name = key.start_mark, (key.tag, str(key.value))
            if name in first:
                where, before = f"{mark.line + 1}:{mark.column + 1}", first[name].line + 1
                what = f"duplicate key `{key.value}` (first on line {before}); remove one of the two"
                raise _RepeatedKeyError(f"{where}: {what}")
            first[name] = mark
        return node


def run_compiler(
    metrics_file: Path,
    command: Sequence[str],
    *,
    runtime: Sequence[Path] = (),
    bounds: Sequence[Path] = (),
    sham: bool = False,
    layout: str = "",
) -> int:
    """Run one compiler command with the counters that a metrics file defines; return the compiler's exit code.

    Settings and site log are written to `<metrics_file>.toolchain`, those of a sham to `<metrics_file>.sham.toolchain`.
    A metric without a site causes one warning: other sources may contain the site.

    `runtime`, `bounds`: As for `write_toolchain`. A program that gets the runtime also writes its counts, see `TOTALS`.
    `layout`: Text from which the layout of a link is drawn; empty: the layout of the command.
    """
    if not command:
        raise SpecError("the compiler command is missing: write it after `--`, as in `-- gcc -O2 -c x.c`")
    software = read_metrics(metrics_file)
    folder = metrics_file.with_name(metrics_file.name + (".sham" if sham else "") + ".toolchain").absolute()
    if runtime and software:
        totals, text = folder / "totals.c", totals_source(software).encode()
        if not totals.is_file() or totals.read_bytes() != text:
            write_whole(str(totals), text)
        runtime = (*runtime, totals)
    write_toolchain(folder, software, compilers={}, runtime=runtime, bounds=bounds, form="sham" if sham else "counting")
    settings = read_settings(str(folder / "settings.json"))._replace(layout=layout)
    _note_uncounted(settings, software)
    code = wrapper.run(settings, tuple(command))
    parsed = parse_command(tuple(command))
    linked = parsed.executable or parsed.library
    # The log of many sources is read only when they are linked, not for each source.
    if code == 0 and (linked or len(list(Path(settings.place("sites")).glob("*.json"))) == 1):
        for name, warning in _warnings(read_sites(folder), software, linked=linked):
            # A warning about a source is repeated for the program.
            if wrapper.is_first_note(settings, f"{linked}\0{name}"):
                print(f"unperturbed cc: warning: {warning}", file=sys.stderr)
    return code


def totals_source(software: Mapping[str, Event]) -> str:
    """Return C source that writes the counts of the compiled-in metrics when the program ends."""
    names = (
        json.dumps(name) if event.means == "compiled" and event.of is None else "0" for name, event in software.items()
    )
    return _TOTALS_SOURCE.replace("@NAMES@", ", ".join(names)).replace("@VARIABLE@", TOTALS)


def read_metrics(path: Path) -> dict[str, Event]:
    """Read the software metrics of a file: a mapping `software:` at its top or below `measure:`, as in a spec."""
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        if root is not None:
            loader.construct_document(root)  # finds every fault of the file
    except OSError as error:
        raise SpecError(f"{path}: cannot read the metrics file ({error.strerror})") from None
    except _RepeatedKeyError as error:
        raise SpecError(f"{path}:{error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as an impossible date
        raise SpecError(f"{path}: invalid YAML ({' '.join(str(error).split())})") from None
    # The file may also be a whole spec, with the mapping below `measure:`.
    software = _below(root, "software") or _below(_below(root, "measure"), "software")
    if not isinstance(software, yaml.MappingNode):
        example = "`software: {blocks: {enter: f}}`"
        raise SpecError(f"{path}: `software:` is missing, or is not a mapping; write, for example, {example}")
    events, faults = {}, []
    for key, mapping in software.value:
        name, mark = str(loader.construct_object(key)), key.start_mark
        try:
            events[name] = parse_event(loader.construct_object(mapping, deep=True))
        except SpecError as error:
            faults.append(f"{path}:{mark.line + 1}:{mark.column + 1}: software metric {name!r}: {error}")
    if faults:
        raise SpecError("\n".join(faults))
    return events


def _below(node: yaml.Node | None, wanted: str) -> yaml.Node | None:
    """Return the value of a key; None if the node is not a mapping or lacks the key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == wanted), None)


def _note_uncounted(settings: ToolchainSettings, software: Mapping[str, Event]) -> None:
    """Warn once about metrics that are not compiled in."""
    kinds = {"kernel": "probe", "preload": "preload", "python": "python", "jvm": "jvm"}
    alone = {name: kinds.get(event.means, event.of and event.kind) for name, event in software.items()}
    names = [f"{name} ({kind})" for name, kind in alone.items() if kind]
    if names and wrapper.is_first_note(settings, f"campaign only\0{names}"):
        what = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} counted only in a campaign"
        print(f"unperturbed cc: warning: {what}, not by `unperturbed cc`", file=sys.stderr)


def _warnings(report: SiteReport, software: Mapping[str, Event], *, linked: bool) -> Iterator[tuple[str, str]]:
    """Yield the metrics without a site, with warnings: all for a program, only misspelt names for a single source."""
    if not report.sources or (not linked and len(report.sources) > 1):
        return
    missing = metrics_without_site(report, software)
    if not missing:
        return
    from unperturbed.instrument.missing import explain  # noqa: PLC0415  most commands lack no metric

    for name, event in missing.items():
        known = linked or last_part(event.target) in explain.names_of_build(report).words
        if linked or (not known and explain.nearest_names(event, report, surely=True)):
            yield name, f"{explain.why_missing(name, event, report)} (another source may contain a site)"
