"""How software counters get into a program: event vocabulary and the rewriting compiler wrapper."""
