"""Campaigns and the commands on them: spec, plan, builds, launching, manifest, host checks, command line."""
