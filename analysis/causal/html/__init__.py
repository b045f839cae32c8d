"""The page of a causal model: its graph, and the data and curve behind each node."""
