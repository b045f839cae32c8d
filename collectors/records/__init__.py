"""From the record file of a run to its trace."""
