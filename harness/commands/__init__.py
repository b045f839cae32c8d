"""One class a command."""
