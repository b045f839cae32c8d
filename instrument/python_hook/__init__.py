"""What runs in the measured Python program: standalone, of the standard library's own start only, for CPython 3.9 and later."""
