"""The causal model: edges, checks, predictions and exports."""
