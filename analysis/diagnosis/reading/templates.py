"""Event types of free text: a message without the parts that vary, such as numbers, addresses, paths and quotations.

The same text always gives the same template, whatever else is in its log: so the templates of a reference and of a
diagnosed log need no matching.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VARYING = re.compile(
    r"""(?x)
      "(?:[^"\\]|\\.)*"                                        # a quotation
    | (?<![\w'])'(?:[^'\\]|\\.)*'(?!\w)
    | [a-zA-Z][\w+.-]*://[^\s,;"')\]}>]*                       # an address of the Web
    | (?<![\w/.])(?:[a-zA-Z]:\\|\\\\)[^\s,;"')\]}>]+           # a path
    | (?<![\w/.])~?/[\w.+@%:~$-]+(?:/[\w.+@%:~$-]*)*
    | (?<![\w.])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}:\d+  # a host with a port
    | (?<=[\w)]=)(?<!state=)(?<!status=)(?<!result=)(?<!type=)(?<!event=)(?<!action=)[^\s,;"')\]}>]+  # a value
    | (?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\.[a-z]{2,3}(?![\w.])  # a host
    | (?<=\buser[ ])[\w.-]+(?=[ ]|$)
    | 0[xX][0-9a-fA-F]+
    | (?<![0-9A-Za-z])(?=[0-9a-fA-F:-]*[0-9])[0-9a-fA-F]{2,}(?:[:-][0-9a-fA-F]+)+(?![0-9A-Za-z])  # a MAC, a UUID
    | (?<![0-9A-Za-z])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{6,}(?![0-9A-Za-z])                            # hexadecimal
    | (?<![0-9A-Za-z])[+-]?[0-9]+(?:[.:,][0-9]+)*              # a number
    | [0-9]+
    """
)
_LONGEST = 1000
"""Characters of a message that its template can have; the rest of the message is left out."""


@lru_cache(1 << 14)
def template_of(message: str) -> str:
    """Return a message with # for each part that varies."""
    return _VARYING.sub("#", message[:_LONGEST]).strip()
