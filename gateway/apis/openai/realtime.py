"""WebSocket upgrades of OpenAI's API, such as ``/v1/realtime``: frames pass one for one."""

from __future__ import annotations

from collections.abc import Mapping

from partway.gateway.apis.openai.errors import REQUEST_ID
from partway.gateway.streams.path_front import PathFront


class RealtimeFront(PathFront):
    """One client's upgrade request; its response has OpenAI's header of the request's id."""

    async def open(self, headers: Mapping[str, str]) -> None:
        await super().open({**headers, REQUEST_ID: self._exchange.request_id})
