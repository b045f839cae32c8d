"""The C that runs inside the measured program or beside it, and how it is compiled."""
