"""Counters that a process reads of itself, and the hook for pyperf that uses them."""
