"""What the numbers mean: alignment, perturbation, report."""
