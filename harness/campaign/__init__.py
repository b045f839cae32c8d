"""Execution of a campaign from the plan to the last trace: manifest, preparation, session, runs and attempts."""
