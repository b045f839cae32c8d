"""Write specs: of a command, of a folder of source code, and examples to begin with."""
