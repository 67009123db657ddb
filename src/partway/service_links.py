"""The variables that Kubernetes puts into each container for the Services beside it."""

from __future__ import annotations

import re
from typing import Final

#: What Kubernetes puts into each container beside a Service whose name begins with ``partway``,
#: as Docker's links once did: nobody has written these, and nobody could take them out.
_LINK: Final = re.compile(
    r"PARTWAY(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")


def is_link(name: str, value: str) -> bool:
    """Whether a variable is what Kubernetes or Docker has put there, be it named as a setting is.

    Beside a Service called ``partway`` there is a ``PARTWAY_PORT`` with a URL for its value, which
    no port can be.
    """
    names_a_port = name.endswith("_PORT") and _LINK_VALUE.match(value)
    return bool(_LINK.fullmatch(name) or names_a_port)
