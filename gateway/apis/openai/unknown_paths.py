"""Paths that end as OpenAI's do and begin elsewhere: their clients have a wrong base URL."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.access.authentication import Access
from partway.gateway.apis.openai.errors import openai_object
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import Route
from partway.protocol.errors import NotFound

OPERATION: Final = "UnknownOpenAiPath"

_METHODS: Final = frozenset({"GET", "POST"})
_OPERATIONS: Final = (
    r"(?:audio/(?:speech|transcriptions|translations)|(?:chat/)?completions|embeddings|files|"
    r"images/(?:edits|generations)|models|moderations|realtime|responses)"
)
_PATH: Final = re.compile(
    rf"(?:(?:/.*)?/endpoints/[^/]+(?:/.*)?|(?:/openai)?(?:/v\d)?)/{_OPERATIONS}"
)


async def _refuse(exchange: Exchange, *_: object) -> None:
    raise NotFound(
        f"no operation answers {exchange.method} on this path; the base URL of OpenAI's clients "
        "must end with /endpoints/NAME/openai/v1, or with /openai/v1 where the model is NAME"
    )


#: Follows all other routes of the API. Clients need not authenticate, as with any unknown path.
UNKNOWN_PATHS: Final = Route(
    OPERATION, _METHODS, _PATH, _refuse, Access.ANYONE, errors=openai_object
)
