"""The search for the graph: adjacencies by independence tests, equivalent variables, edge directions."""
