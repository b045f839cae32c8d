"""Classes of a run's elements: given classes, bands of one metric, or clusters; and the class of each element."""
