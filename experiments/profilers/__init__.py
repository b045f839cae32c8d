"""What profilers, debuggers and tracers change in the program that they observe."""
