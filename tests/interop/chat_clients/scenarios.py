"""What each client asks each server, and what must come of it.

The stub's answers are known to the letter. A language model's are not, so there the form counts:
``text`` may obey an option or refuse it by name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from tests.interop.aws_sdk import SdkError
from tests.interop.chat_clients.clients import ENOUGH, Client, Driven
from tests.interop.chat_clients.engine import REASON
from tests.interop.chat_clients.servers import Fleet, Server

#: Its values are short, so that every model's answer is complete.
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Bergen"]},
        "degrees": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "degrees"],
    "additionalProperties": False,
}

TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

SAID: Final = "good morning to größer 🌍"

#: More than ``text`` takes, whatever its model's context.
TOO_MUCH: Final = "a" * 300_000
TOO_MUCH_REASON: Final = "too much text"

#: Of InvokeEndpoint, if the container refuses.
STATUS: Final = "424"

#: Exceptions for an answer whose finish reason is its length. A model without sense may write white
#: space for as long as it is let.
_CUT: Final = frozenset({"LengthFinishReasonError", "MaxTokensReachedException"})

#: Texts that follow the schema. Each rest that a cut text may need is the end of one of them.
_WHOLE: Final = [
    json.dumps(dict(members))
    for city in ("Oslo", "Bergen")
    for members in permutations([("city", city), ("degrees", 7)])
]

#: Seconds until the engine must know that a client has left.
_SOON: Final = 60.0


@dataclass(frozen=True, slots=True)
class Asking:
    """A client at a server."""

    fleet: Fleet
    driven: Driven
    client: Client
    server: Server

    @property
    def of_stub(self) -> bool:
        """Whether the stub answers."""
        return self.server.name != "text"

    async def ask(self, command: str, **arguments: Any) -> Any:
        return await self.driven.ask(self.client, self.server, command, **arguments)


async def whole(asking: Asking) -> str:
    """An answer in one piece."""
    answer = await asking.ask("whole", said=SAID)
    if asking.of_stub:
        assert answer["text"] == SAID.upper(), answer
    assert answer["text"].strip(), answer
    return ""


async def stream(asking: Asking) -> str:
    """An answer in pieces."""
    answer = await asking.ask("stream", said=SAID)
    text = "".join(answer["pieces"])
    if asking.of_stub:  # a busy language model sends what has come meanwhile as one piece
        assert text == SAID.upper(), answer
        assert len(answer["pieces"]) > 1, answer
    assert text.strip(), answer
    return ""


async def usage(asking: Asking) -> str:
    """The counts of tokens, of both kinds of answers."""
    for command in ("whole", "stream"):
        counts = (await asking.ask(command, said=SAID))["usage"]
        if asking.of_stub:
            assert counts == [len(SAID.split())] * 2, (command, counts)
        assert min(counts) > 0, (command, counts)
    return ""


async def tool(asking: Asking) -> str:
    """One call of a tool, whose result is answered."""
    try:
        answer = await asking.ask("tool", said="the weather in Oslo?", tool=TOOL)
    except SdkError as refused:
        return _refusal(asking, refused, "tool")
    if asking.of_stub:
        assert answer["calls"] == [["weather", {"city": "Oslo"}]], answer
        assert answer["text"] == "THE TOOL SAID 7 DEGREES", answer
    return "" if answer["calls"] else "no call"


async def schema(asking: Asking) -> str:
    """An answer that follows a JSON schema."""
    try:
        found = await asking.ask("schema", said="the weather in Oslo?", schema=SCHEMA)
    except SdkError as refused:
        if refused.kind in _CUT and not asking.of_stub:
            return "cut"
        return _refusal(asking, refused, "response_format", "tool")
    if isinstance(found, str):
        found, text = object_in(found), found
        if found is None and is_cut(text) and not asking.of_stub:
            return "cut"
    if asking.of_stub:
        assert found == {"city": "Oslo", "degrees": 7}, found
    assert follows_schema(found), found
    return ""


def object_in(text: str) -> Any:
    """The JSON value of a text; None if it is not JSON, or if a name is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_without_twins)
    except ValueError:
        return None


def _without_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError
    return found


def follows_schema(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.keys() == SCHEMA["properties"].keys()
        and found["city"] in ("Oslo", "Bergen")
        and type(found["degrees"]) is int
        and 0 <= found["degrees"] <= 99
    )


def is_cut(text: str) -> bool:
    """Whether a text is the beginning of a whole one: with some rest it follows the schema."""
    rests = (whole[at:] for whole in _WHOLE for at in range(len(whole)))
    return text != "" and any(follows_schema(object_in(text + rest)) for rest in rests)


async def leave(asking: Asking) -> str:
    """A client that breaks an answer off; the engine learns of it while the client goes on."""
    engine = asking.fleet.engine
    left = engine.left
    before = _lost(asking)
    heard = await asking.ask("leave", said="count")
    assert heard >= ENOUGH, heard
    async with asyncio.timeout(_SOON):
        if asking.of_stub:
            await engine.lost_more_than(left)
            return ""
        while _lost(asking) == before:  # noqa: ASYNC110 (the log is another process's)
            await asyncio.sleep(0.02)
    return ""


async def error(asking: Asking) -> str:
    """A refusal, whose reason is in the text of the client's exception."""
    said, reason = ("fail", REASON) if asking.of_stub else (TOO_MUCH, TOO_MUCH_REASON)
    for command in ("whole", "stream"):
        try:
            answer = await asking.ask(command, said=said)
        except SdkError as refused:
            told = refused.text
        else:
            raise AssertionError(f"{command}: no exception, but {answer}")
        if command in asking.client.mute:
            assert STATUS in told, (command, told)
        elif reason not in told:
            raise AssertionError(f"{command}: the exception does not say {reason!r}: {told}")
    return "streamed alone" if asking.client.mute else ""


async def embed(asking: Asking) -> str:
    """Vectors; ``text`` has none, and says so."""
    try:
        vectors = await asking.ask("embed", texts=["a", "bcd"])
    except SdkError as refused:
        return _refusal(asking, refused, "nothing is served here")
    assert vectors == [[1.0, 0.5], [3.0, 0.5]], vectors
    return ""


def _refusal(asking: Asking, refused: SdkError, *names: str) -> str:
    """Say that a language model cannot do something; its reason must name it.

    Raises:
        SdkError: the stub can, or the reason names something else.
    """
    if asking.of_stub or not any(name in refused.text for name in names):
        raise refused
    return "refused"


def _lost(asking: Asking) -> int:
    """How many answers of an endpoint have ended since the gateway began because a client left."""
    ended = f"stream ended endpoint={asking.server.name} "
    lines = asking.fleet.gateway.log.read_text("utf-8").splitlines()
    return sum(ended in line and " cause=client_" in line for line in lines)


SCENARIOS: Final[dict[str, Callable[[Asking], Awaitable[str]]]] = {
    "whole": whole,
    "stream": stream,
    "usage": usage,
    "tool": tool,
    "schema": schema,
    "leave": leave,
    "error": error,
    "embed": embed,
}
