"""Results of other harnesses, read as totals of whole runs; each module that defines an `ImportFormat` is found."""
