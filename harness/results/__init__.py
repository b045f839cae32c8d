"""From a campaign's runs to verdicts, alignments, merged traces and the report."""
