"""Paths that users give: campaigns, traces and output files; and pages that are shown in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.summary import HOME

CAMPAIGN_OR_SPEC = "the campaign's folder, or the spec that it was run from (then campaigns/<its name>)"
"""Help of an argument that `campaign_folder` reads."""


def campaign_folder(given: Path) -> Path:
    """Return the folder of a campaign, as an absolute path."""
    if not (given / "campaign.sqlite").is_file() and (advice := _of_another_tool(given)):
        raise SpecError(advice)
    if not given.exists():
        raise SpecError(f"no file or folder {given}; `unperturbed list` shows all campaigns")
    if not given.is_file():
        return given.absolute()
    from unperturbed.harness.spec.load import changed_keys, load_spec

    spec = load_spec(given)
    folder = HOME / spec.name
    if not (folder / "campaign.sqlite").is_file():
        raise SpecError(
            f"{given}: its campaign is not in {folder}; run it (unperturbed run {given}), or name the campaign's folder"
        )
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        digest, text = manifest.fact("spec_digest"), manifest.fact("spec_text")
    if digest not in (None, spec.digest):
        changed = ", ".join(changed_keys(spec, text or ""))
        print(
            f"note: {folder} was measured by another version of {given}"
            f"{f' (changed since: {changed})' if changed else ''}; what follows is of that version. To measure this "
            f"one: unperturbed run {given} --campaign FOLDER",
            file=sys.stderr,
        )
    return folder.absolute()


def is_on_nodes(folder: Path) -> bool:
    """Return whether a folder holds a campaign whose runs nodes made."""
    if not (folder / "campaign.sqlite").is_file():
        return False
    from unperturbed.harness.nodes.shares import NODES

    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        return bool(manifest.fact("purpose") == NODES)


def require_trace(given: Path) -> None:
    """Refuse a file or folder of another tool where a trace is wanted, and name the command that takes it."""
    own = (given / "trace.parquet").is_file() or given.suffix == ".parquet"
    if not own and (advice := _of_another_tool(given)):
        raise SpecError(advice)


def _of_another_tool(given: Path) -> str:
    """Return which command takes a file or a folder of files of another tool; '' for specs and all else."""
    if not given.exists() or given.suffix in (".yaml", ".yml"):
        return ""
    from unperturbed.harness.campaign.importing import what_to_type

    return what_to_type(given)


def open_page(page: Path) -> None:
    """Open a page in the user's browser; without one, print where it is on stderr."""
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_display or not webbrowser.open(page.absolute().as_uri()):
        print(f"no browser can be opened here (no display); the page is {page}", file=sys.stderr)


def require_writable_path(path: Path) -> None:
    """Raise SpecError where no file can be written."""
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: the folder {path.parent} does not exist")
