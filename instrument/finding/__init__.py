"""Search for event sites in source text with libclang, and insertion of counting code."""
