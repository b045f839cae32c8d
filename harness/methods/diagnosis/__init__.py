"""Diagnosis of event logs: `unperturbed diagnose`, and its export to Perfetto."""
