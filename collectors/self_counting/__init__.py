"""Counters with which a process measures itself, and the pyperf hook that uses them."""
