"""``inputs`` on ``/invocations``: text-generation-inference's form, before a completion upstream.

SageMaker's own containers for language models take this form, and clients such as LiteLLM's
``sagemaker/`` send it. Upstreams that speak OpenAI's API continue a plain text too, at
``/v1/completions``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from partway.container.errors import ModelError
from partway.container.models.chat.conversation import first_choice
from partway.container.models.generated_text import token_data, whole_answer
from partway.container.models.openai_events import server_sent_event
from partway.protocol.limits import MIB
from partway.protocol.openai.errors import error_body

if TYPE_CHECKING:
    import msgspec

#: Most bytes of a whole answer: some 4 million tokens, more than any model's context.
MAX_ANSWER_BYTES: Final = 16 * MIB

#: Parameters that an upstream may know, by its names for them. Others have no effect.
_PARAMETERS: Final = {
    "max_new_tokens": "max_tokens",
    **{
        name: name
        for name in (
            *("temperature", "top_p", "top_k", "stop", "seed"),
            *("repetition_penalty", "frequency_penalty"),
        )
    },
}


class TextInputs:
    """One request.

    Args:
        members: the texts of the body's members; ``inputs`` is among them.

    Attributes:
        stream: whether the answer is sent as events.

    Raises:
        ModelError: a member has another type than it must have.
    """

    def __init__(self, members: Mapping[str, msgspec.Raw]) -> None:
        prompt = _value(members, "inputs")
        parameters = _value(members, "parameters") or {}
        stream = _value(members, "stream") or False
        if not isinstance(prompt, str):
            raise ModelError("inputs: must be one string", status=400)
        if not isinstance(parameters, dict):
            raise ModelError("parameters: must be an object", status=400)
        if not isinstance(stream, bool):
            raise ModelError("stream: must be true or false", status=400)
        self._prompt = prompt
        self._parameters = parameters
        self.stream = stream

    def completion(self, model: str) -> bytes:
        """Return the body of the completion request, whose answer comes as events.

        Args:
            model: the model's name for the upstream; it may be empty.
        """
        given = {
            name: self._parameters[of_client]
            for of_client, name in _PARAMETERS.items()
            if self._parameters.get(of_client) is not None
        }
        if self._parameters.get("do_sample") is False:
            given["temperature"] = 0
        asked = {"model": model, "prompt": self._prompt, **given, "stream": True}
        return json.dumps(asked).encode()

    def whole(self, text: str) -> bytes:
        """Return the answer in one piece."""
        before = self._prompt if self._parameters.get("return_full_text") is True else ""
        return whole_answer(before + text)


def _value(members: Mapping[str, msgspec.Raw], name: str) -> Any:
    """Return a member's value; None for an absent member."""
    if name not in members:
        return None
    try:
        return json.loads(bytes(members[name]))
    except (ValueError, RecursionError):
        reason = f"{name}: has too many levels, or a number of too many digits"
        raise ModelError(reason, status=400) from None


class CompletionPieces(AsyncIterator[str]):
    """The pieces of text of an upstream's completion, which may be empty.

    Its owner must call :meth:`aclose`.

    Args:
        events: the data of the upstream's events.
    """

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        self._events = events
        self._bytes = 0

    async def __anext__(self) -> str:
        """Return the next piece.

        Raises:
            ModelError: the upstream fails, or its answer is too long.
        """
        data = await anext(self._events)
        self._bytes += len(data)
        if self._bytes > MAX_ANSWER_BYTES:
            raise ModelError(
                f"the upstream's answer has more than {MAX_ANSWER_BYTES} bytes", status=502
            )
        text = first_choice(data).get("text")
        return text if isinstance(text, str) else ""

    async def aclose(self) -> None:
        """Cancel the upstream's work unless the answer is complete."""
        await self._events.aclose()


class TokenEvents(AsyncIterator[bytes]):
    """Pieces of text as events with a ``token`` each; the last one also has the whole text.

    Args:
        pieces: closed with this.
        first: the piece that was taken already.
    """

    def __init__(self, pieces: CompletionPieces, first: str) -> None:
        self._pieces = pieces
        self._items = _token_events(pieces, first)

    async def __anext__(self) -> bytes:
        return await anext(self._items)

    async def aclose(self) -> None:
        await self._items.aclose()
        await self._pieces.aclose()


async def _token_events(pieces: CompletionPieces, first: str) -> AsyncGenerator[bytes]:
    said = [first]
    try:
        yield server_sent_event(token_data(first, len(said)))
        async for piece in pieces:
            if piece:
                said.append(piece)
                yield server_sent_event(token_data(piece, len(said)))
    except ModelError as error:  # the head has been sent
        yield server_sent_event(error_body(error.reason, error.status))
        return
    yield server_sent_event(token_data("", len(said) + 1, "".join(said)))
