"""The measured program: source, builds, layouts, command, process and software metrics."""
