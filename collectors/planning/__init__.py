"""What this host can count and how many passes it takes: the catalogue of metrics, and passes found by trying."""
