"""The page of a partition: the plan, the evidence for each subset, the search."""
