"""The description of an API, which is imported whether the API is served or not."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Manifest:
    """One API.

    Attributes:
        name: by which ``apis`` names it.
        module: imported if the API is served; its ``install(gateway)`` adds the API's services.
        paths: the requests' paths.
        targets: the beginnings of ``X-Amz-Target`` at ``POST /``.
        grpc_services: the full names of gRPC services.
        needs: names of the APIs that it cannot be without.
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
    settings: type | None = None
