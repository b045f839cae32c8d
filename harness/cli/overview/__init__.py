"""Commands that show the state of campaigns."""
