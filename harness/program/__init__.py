"""The measured program: source, builds, layouts, command, launch, and its software metrics."""
