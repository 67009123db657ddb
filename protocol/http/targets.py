"""The characters that parts of a request's target may have as they are sent (RFC 3986).

A part is passed on as it came, so it must mean the same to each server. A raw ``#`` would end it
for some, and a blank would end the request line.
"""

from __future__ import annotations

import re
from typing import Final

_CHARACTERS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#: A segment of a path that is not empty (§3.3), and a query (§3.4).
SEGMENT: Final = re.compile(rf"{_CHARACTERS}+")
QUERY: Final = re.compile(rf"(?:{_CHARACTERS}|[/?])*")
