"""The subprotocols that a WebSocket client offers, and the bearer tokens among them (clause 3-6).

Browsers set no headers on a WebSocket. So clients offer a token as if it were a subprotocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

#: Begins the offer by which OpenAI's client sends a token.
OPENAI_PREFIX: Final = "openai-insecure-api-key."
#: The offers after which Deepgram's clients send a token.
BEFORE_TOKEN: Final = ("token", "bearer")


class OfferedSubprotocols(NamedTuple):
    """The client's offers, in its order.

    Attributes:
        names: the offers without tokens.
        tokens: bearer tokens; no answer and no log may show them.
    """

    names: tuple[str, ...]
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str]) -> OfferedSubprotocols:
        """Read the values of the headers Sec-WebSocket-Protocol."""
        names: list[str] = []
        tokens: list[str] = []
        announced = False
        for offer in (offer.strip() for value in values for offer in value.split(",")):
            if announced:
                tokens.append(offer)
            elif offer.startswith(OPENAI_PREFIX):
                tokens.append(offer.removeprefix(OPENAI_PREFIX))
            else:
                names.append(offer)
            announced = not announced and offer in BEFORE_TOKEN
        return cls(tuple(names), tuple(tokens))
