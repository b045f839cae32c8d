"""Events for programs that watch a command: a JSON object a line on standard error."""

from __future__ import annotations

import json
import sys
import time


def print_event(event: str, **facts: object) -> None:
    """Print one event."""
    line = json.dumps({"event": event, "time": round(time.time(), 3), **facts}, ensure_ascii=False)
    print(line, file=sys.stderr, flush=True)
