"""The temporal distance: the cheapest way to turn one trace into the other by deleting, inserting and moving events."""
