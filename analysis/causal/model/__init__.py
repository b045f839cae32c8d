"""The causal model: edges, checks, predictions, exports, and its wording."""
