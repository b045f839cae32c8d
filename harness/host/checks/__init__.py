"""The doctor's checks of a host: a module a subject, a record `HostCheck` a check (see `harness.host.doctor`)."""
