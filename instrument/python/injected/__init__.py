"""Code that runs in the measured Python program: standalone modules for CPython 3.9 and later, loaded by file name."""
