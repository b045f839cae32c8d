"""The command line of gcc and clang: what it requests, and the command lines that instrumentation derives from it."""
