"""The manifest of an API, which is imported even if the API is not served."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Manifest:
    """One API.

    Attributes:
        name: the name in the setting ``apis``.
        module: imported if the API is served; its ``install(gateway)`` adds the API's services.
        paths: the paths of requests.
        targets: the prefixes of ``X-Amz-Target`` at ``POST /``.
        grpc_services: the full names of gRPC services.
        needs: the names of the APIs that this one needs.
        relays: whether its operations pass requests on to instances, so that each worker serves
            them; the others need the fleet or the store.
        settings: a dataclass of the API's own settings, from which
            :class:`~partway.gateway.settings.settings.Settings` is derived; None for an API
            without any.
    """

    name: str
    module: str
    paths: tuple[re.Pattern[str], ...] = ()
    targets: tuple[str, ...] = ()
    grpc_services: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    relays: bool = False
    settings: type | None = None
