"""The parts of `docs/evidence/calibration.py`: a module for each group of tables, and the page's text."""
