"""What a campaign is and how it runs: spec, plan, builds, launching, manifest, host checks, command line."""
