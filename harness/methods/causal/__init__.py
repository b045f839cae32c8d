"""The input of a causal model (tables, prior knowledge, options) and the questions that are put to it."""
