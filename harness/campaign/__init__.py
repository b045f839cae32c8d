"""One campaign from its plan to its last trace: manifest, session, preparation, runs and attempts."""
