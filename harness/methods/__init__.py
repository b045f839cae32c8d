"""Methods of analysis in the harness: the command of each, its terminal view, and the files that it reads and writes.

Nothing else in the harness names these folders. They come by entry points of this distribution, in pyproject.toml.
"""
