"""Commands that analyse traces, logs and tables from anywhere."""
