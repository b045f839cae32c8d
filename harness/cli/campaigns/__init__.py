"""Commands that make, check and report campaigns."""
