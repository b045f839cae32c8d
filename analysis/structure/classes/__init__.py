"""Classes of a run's elements: given, by bands of one metric, or found by clustering; and each element's class."""
