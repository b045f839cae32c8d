"""Runs as words: the composition of one run, how a second run differs, phases as anchors, sentences and tables."""
