"""Paths given by users (campaigns, traces, output files), and pages to open in a browser."""

from __future__ import annotations

import os
import sqlite3
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.summary import HOME

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

CAMPAIGN_OR_SPEC = "the campaign's folder, or its spec (the folder is then campaigns/<name of the spec>)"
"""Help text of an argument that `campaign_folder` interprets."""


def campaign_folder(given: Path) -> Path:
    """Return the absolute path of a campaign's folder, given the folder or the spec."""
    if not (given / "campaign.sqlite").is_file() and (advice := _of_another_tool(given)):
        raise SpecError(advice)
    if not given.exists():
        raise SpecError(f"no file or folder {given}; `unperturbed list` lists the campaigns in the current folder")
    if not given.is_file():
        _compare_with_spec_file(given)
        return given.absolute()
    from unperturbed.harness.spec.load import load_spec

    spec = load_spec(given)
    folder = HOME / spec.name
    if not (folder / "campaign.sqlite").is_file():
        raise SpecError(
            f"{given}: there is no campaign of this spec in {folder}; run the spec (unperturbed run {given}), or give "
            "the campaign's folder"
        )
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        digest, text = manifest.fact("spec_digest"), manifest.fact("spec_text")
    _note_edits(folder, given, spec, digest, text or "")
    return folder.absolute()


def _compare_with_spec_file(folder: Path) -> None:
    """Note on standard error if the spec file of a campaign's folder was edited; nothing if it cannot be compared."""
    if not (folder / "campaign.sqlite").is_file():
        return
    from unperturbed.harness.spec.load import load_spec

    try:
        with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
            digest, text, path = (manifest.fact(name) for name in ("spec_digest", "spec_text", "spec_path"))
            derived = manifest.fact("imported") is not None or manifest.fact("part") is not None
    except (SpecError, HostError, sqlite3.OperationalError):  # the command itself reports it
        return
    if derived or path is None or "\0" in path or not Path(path).is_file():
        return
    try:
        spec = load_spec(path)
    except (SpecError, OSError):
        return
    if spec.text != text and spec.name == folder.absolute().name:
        _note_edits(folder, Path(os.path.relpath(path)), spec, digest, text or "")


def _note_edits(folder: Path, given: Path, spec: CampaignSpec, digest: str | None, text: str) -> None:
    """Note on standard error which keys of a spec were edited since its campaign was measured."""
    from unperturbed.harness.spec.load import changed_keys, changed_settings

    if digest not in (None, spec.digest):
        changed = ", ".join(changed_keys(spec, text))
        print(
            f"note: {folder} was measured with a different version of {given}"
            f"{f' (changed since: {changed})' if changed else ''}, and its results are of that version. To measure the "
            f"current version: unperturbed run {given} --campaign FOLDER",
            file=sys.stderr,
        )
    elif changed := ", ".join(changed_settings(spec, text)):
        print(
            f"note: {given} was edited since the last run of its campaign ({changed}), and these results are of the "
            f"earlier version. To apply the change: unperturbed run {given}",
            file=sys.stderr,
        )


def is_on_nodes(folder: Path) -> bool:
    """Return whether a folder contains a campaign that ran on nodes."""
    if not (folder / "campaign.sqlite").is_file():
        return False
    from unperturbed.harness.nodes.shares import NODES

    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        return bool(manifest.fact("purpose") == NODES)


def require_trace(given: Path) -> None:
    """Refuse another tool's file or folder in place of a trace, and name the command that accepts it."""
    own = (given / "trace.parquet").is_file() or given.suffix == ".parquet"
    if not own and (advice := _of_another_tool(given)):
        raise SpecError(advice)


def _of_another_tool(given: Path) -> str:
    """Return advice on which command accepts another tool's file or folder; '' for any other path."""
    if not given.exists() or given.suffix in (".yaml", ".yml"):
        return ""
    from unperturbed.harness.campaign.importing import what_to_type

    return what_to_type(given)


def open_page(page: Path) -> None:
    """Open a page in the user's browser; if there is no browser, print the page's path on stderr."""
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_display or not webbrowser.open(page.absolute().as_uri()):
        print(f"cannot open a browser (no display); the page is {page}", file=sys.stderr)


def require_writable_path(path: Path) -> None:
    """Raise SpecError if the path is a folder, or its parent folder does not exist."""
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the path of a file")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: the folder {path.parent} does not exist; create it, or give a different path")
