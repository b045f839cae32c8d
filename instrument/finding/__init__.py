"""Where events happen in source text, by libclang, and the counting text put there."""
