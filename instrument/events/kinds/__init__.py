"""The kinds of software events, found by themselves (`event.event_kinds`)."""
