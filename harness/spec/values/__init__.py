"""Values of a spec that are more than text, numbers and lists: quantities, parameters, placeholders."""
