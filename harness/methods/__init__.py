"""What a method of analysis has in the harness: its command, what that shows, what it reads and writes.

Nothing else in the harness names these folders. They come by entry points of this distribution, in pyproject.toml.
"""
