"""The choice of metrics: redundant metrics, and the few from which the others can be predicted in runs held back."""
