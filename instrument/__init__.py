"""Software counters in a program: event kinds, compiler wrapper, Python import hook and probes in binaries."""
