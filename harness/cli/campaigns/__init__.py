"""Commands that create, run, judge and report campaigns."""
