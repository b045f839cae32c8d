"""The choice of metrics: four programs, joined passes beside one pass, noise, and mixtures with known sources."""
