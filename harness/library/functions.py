"""Functions of `import unperturbed as up` that combine several packages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.collectors import Trace
from unperturbed.errors import DataError
from unperturbed.harness.campaign.importing import what_to_type
from unperturbed.harness.library.campaign import Campaign

if TYPE_CHECKING:
    from unperturbed.harness.results.verdicts import CampaignVerdicts


def load(folder: str | os.PathLike[str]) -> Campaign:
    """Open a recorded campaign.

    Parameters
    ----------
    folder : path-like
        The campaign's folder, as written by `unperturbed run`.

    Returns
    -------
    Campaign
        Its runs, verdicts and report.

    Raises
    ------
    SpecError
        The folder contains no campaign.
    """
    return Campaign(folder)


def check(campaign: Campaign | str | os.PathLike[str]) -> CampaignVerdicts:
    """Compare every configuration of a campaign with its baseline.

    Parameters
    ----------
    campaign : Campaign or path-like
        A campaign, or its folder.

    Returns
    -------
    CampaignVerdicts
        A verdict for each configuration, with notes on the baseline.

    Raises
    ------
    SpecError
        The folder contains no campaign, or one on several nodes: read its `nodes.json`, or give the folder of a part.
    """
    return (campaign if isinstance(campaign, Campaign) else Campaign(campaign)).check()


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read the trace of one run.

    Parameters
    ----------
    path : path-like
        A trace file, or the folder of a run.

    Returns
    -------
    Trace
        The trace, with one row per interval.

    Raises
    ------
    DataError
        There is no trace, or it cannot be read; for another tool's file, the message names the command that reads it.
    """
    try:
        return Trace.read(path)
    except DataError as error:
        if advice := what_to_type(Path(path)):
            raise DataError(f"{advice}; in Python, use `read_traces({str(path)!r})`") from None
        raise error from None
