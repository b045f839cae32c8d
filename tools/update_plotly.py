"""Put the pinned plotly.js into the checkout: its basic bundle (scatter, bar, pie) from npm, checked and compressed.

Run it after a change of VERSION and INTEGRITY below; `npm view plotly.js-basic-dist-min@VERSION dist.integrity` prints
the latter. Nothing else needs it: what it writes is in version control and in the wheel, so that a report needs no
network, neither when it is made nor when it is read.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from urllib.request import urlopen

PACKAGE = "plotly.js-basic-dist-min"
VERSION = "4.1.1"
INTEGRITY = "sha512-1oNF8PeQx2hv/y7tqEVWKD3JGwn/MGEMQ8mL9HUwsaqG9FGy/OU5FHUHvzqbqxN4mnwZGI9abTiE775C4kkjMQ=="
"""Of the package's archive, as npm states it."""

SHA256 = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"
"""Of the script itself, uncompressed."""

FOLDER = Path(__file__).parents[1] / "analysis" / "pages" / "plotly"


def main() -> int:
    """Fetch, check, write."""
    address = f"https://registry.npmjs.org/{PACKAGE}/-/{PACKAGE}-{VERSION}.tgz"
    with urlopen(address, timeout=60) as answer:
        archive = answer.read()
    checksum = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
    if checksum != INTEGRITY:
        print(f"{address}: its checksum is {checksum}, and {INTEGRITY} is expected", file=sys.stderr)
        return 1
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        script, licence = (_content(members, f"package/{name}") for name in ("plotly-basic.min.js", "LICENSE"))
    if hashlib.sha256(script).hexdigest() != SHA256:
        print(f"the script's SHA256 is {hashlib.sha256(script).hexdigest()}: put it here", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    # Without a time and a name the same script gives the same file.
    (FOLDER / "plotly-basic.min.js.gz").write_bytes(gzip.compress(script, 9, mtime=0))
    (FOLDER / "LICENSE").write_bytes(licence)
    return 0


def _content(members: tarfile.TarFile, name: str) -> bytes:
    member = members.extractfile(name)
    if member is None:
        raise FileNotFoundError(name)
    return member.read()


if __name__ == "__main__":
    raise SystemExit(main())
