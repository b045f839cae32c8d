"""YAML with the position of every key and value, and advice on its errors."""
