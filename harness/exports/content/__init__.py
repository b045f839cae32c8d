"""What is exported of a campaign: its runs in one column layout, aligned if wanted, with phases as slices of time."""

from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns, Slice, read_runs, single_run, title_of

__all__ = ["ExportedRun", "ExportedRuns", "Slice", "read_runs", "single_run", "title_of"]
