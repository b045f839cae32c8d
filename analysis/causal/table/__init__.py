"""The table that a causal model is learnt from: columns as variables, and prior knowledge about them."""
