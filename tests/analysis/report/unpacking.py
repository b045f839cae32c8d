"""What a page holds compressed, as text: all but the script that draws its figures."""

from __future__ import annotations

import base64
import gzip
import re


def unpacked(html: str) -> str:
    """Return a page with its compressed blocks as plain text."""

    def plain(found: re.Match[str]) -> str:
        if found[1] == "plotly-source":
            return found[0]
        return f'<script type="application/json" id="{found[1]}">{gzip.decompress(base64.b64decode(found[2])).decode()}'

    return re.sub(r'<script type="application/gzip" id="([^"]*)">([\w+/=]*)', plain, html)
