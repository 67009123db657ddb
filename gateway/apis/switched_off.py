"""The paths of APIs that are not served: they answer 404 and say why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from partway.gateway.access.authentication import Access
from partway.gateway.apis.manifest import Manifest
from partway.gateway.http.routes import Route
from partway.protocol.errors import NotFound

OPERATION: Final = "ApiSwitchedOff"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_POST: Final = frozenset({"POST"})
_ROOT: Final = re.compile("/")


def routes_of_switched_off(manifest: Manifest) -> Iterator[Route]:
    """Yield the routes of an API that is not served; callers need not authenticate."""

    async def refuse(*_: object) -> None:
        raise NotFound(
            f"the API {manifest.name!r} answers this path, and it is switched off here: the "
            "gateway's setting apis must name it"
        )

    services = (re.compile(f"/{re.escape(each)}/[^/]+") for each in manifest.grpc_services)
    for path in (*manifest.paths, *services):
        yield Route(OPERATION, _METHODS, path, refuse, Access.ANYONE)
    for target in manifest.targets:
        yield Route(OPERATION, _POST, _ROOT, refuse, Access.ANYONE, target=f"{target}*")
