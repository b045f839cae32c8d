"""Campaigns and their commands: spec, plan, builds, runs, manifest, host checks, command line."""
