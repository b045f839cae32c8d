"""The gate for pull requests, on changes of zlib."""
