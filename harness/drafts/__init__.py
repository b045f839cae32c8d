"""Write specs: for a command, for a folder of source code, and examples to start from."""
