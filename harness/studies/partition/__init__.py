"""Search for a partition of metrics into passes or subsets that leave the program unperturbed, and its plan."""
