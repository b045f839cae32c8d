"""The kinds of software events, one a module; found by themselves (`event.event_kinds`)."""
