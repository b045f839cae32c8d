"""Responses to doses: correlations and totals at several increments for each event, extrapolated to none."""
