"""Keeps the processor that it is started on busy: `python stress.py cpu|memory PROCESSES SEED BYTES`.

Says "ready" when all processes run, and ends with all of them when its standard input is closed, so that nothing is
left of it when the recorder is killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys

CHUNK = 4 << 20
"""Bytes moved between two looks at the parent."""


def keep_busy(parent: int) -> None:
    """Count, until the parent is gone."""
    while os.getppid() == parent:
        for _ in range(100_000):
            pass


def keep_moving(parent: int, size: int, chance: random.Random) -> None:
    """Take memory afresh, fill it, copy pieces of it about at random, and give it back, until the parent is gone."""
    piece = min(CHUNK, size // 2)
    while os.getppid() == parent:
        memory = bytearray(size)
        for _ in range(max(1, size // piece)):
            source, target = (chance.randrange(size - piece + 1) for _ in range(2))
            memory[target : target + piece] = memoryview(memory)[source : source + piece].tobytes()


def main() -> None:
    """Start the processes, and end them with the recorder."""
    way, processes, seed, size = sys.argv[1], *map(int, sys.argv[2:5])
    parent = os.getpid()
    for number in range(processes):
        if os.fork() == 0:
            if way == "memory":
                keep_moving(parent, size, random.Random(f"{seed} {number}"))
            else:
                keep_busy(parent)
            os._exit(0)
    print("ready", flush=True)
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
