"""HTML page of a causal model: its graph, and the data and curve of each node."""
