"""Kinds of software events: one kind in each module, found automatically by `event.event_kinds`."""
