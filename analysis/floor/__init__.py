"""The noise floor: the smallest change that a number of runs can show, computed from how runs of one program vary."""
