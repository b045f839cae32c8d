"""Tables that people and other tools wrote as text: their heading, their separator, and what each column holds."""
