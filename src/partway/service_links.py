"""The variables that Kubernetes puts into each container for the Services beside it."""

from __future__ import annotations

import re
from typing import Final

#: Kubernetes sets these in each container, for each Service, as Docker's links did: for ``partway``
#: and ``talk`` they look like settings. Nobody chose them, and nobody can remove them.
_LINK: Final = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")


def is_link(name: str, value: str) -> bool:
    """Whether Kubernetes or Docker has set a variable, even one with a setting's name.

    Beside a Service called ``partway`` there is a ``PARTWAY_PORT`` whose value is a URL, which no
    port can be.
    """
    names_a_port = name.endswith("_PORT") and _LINK_VALUE.match(value)
    return bool(_LINK.fullmatch(name) or names_a_port)
