"""The doctor's checks of a host: one module per subject, one `HostCheck` per check (see `harness.host.doctor`)."""
