"""Another layout of the same program: its objects linked in another order."""
