"""The C that lives inside the measured program. Data, not Python: `unperturbed.collectors.runtime_build` compiles it."""
