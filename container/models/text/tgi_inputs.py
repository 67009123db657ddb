"""``inputs`` on ``/invocations``: the ``generate`` API of Hugging Face's text-generation-inference.

SageMaker's own containers for language models speak it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Final

from partway.container.models.generated_text import token_data, whole_answer
from partway.container.models.text.generation_request import Ask
from partway.container.models.text.replies import TextReply
from partway.container.models.text.request_members import (
    Members,
    Refused,
    flag_of,
    non_empty_string_of,
)
from partway.container.models.text.sampling_options import OPTIONS, sampling_of

_PARAMETERS: Final = OPTIONS | {"max_new_tokens", "do_sample", "return_full_text", "details"}


@dataclass(frozen=True, slots=True)
class InputsAsk:
    """A parsed request.

    Attributes:
        ask: the generation request; its prompt is raw.
        stream: whether the answer is sent as events.
        full_text: whether a whole answer begins with the prompt.
        ignored: names of members that have no effect.
    """

    ask: Ask
    stream: bool = False
    full_text: bool = False
    ignored: frozenset[str] = frozenset()


def is_inputs(members: Members) -> bool:
    """Whether a JSON body has the form of text-generation-inference."""
    return "inputs" in members


def inputs_of(members: Members) -> InputsAsk:
    """Parse ``{"inputs": "…", "parameters": {…}, "stream": …}``.

    Raises:
        Refused: ``inputs`` is not one string, or a parameter is out of range.
    """
    members = {name: value for name, value in members.items() if value is not None}
    parameters = members.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Refused("parameters: must be an object")
    given = {name: value for name, value in parameters.items() if value is not None}
    sampling = sampling_of(given, "max_new_tokens")
    if not flag_of(given, "do_sample", default=True):
        sampling = replace(sampling, temperature=0.0, top_p=None, top_k=None)
    return InputsAsk(
        Ask(
            prompt=non_empty_string_of("inputs", members.get("inputs")),
            sampling=sampling,
            raw=True,
        ),
        stream=flag_of(members, "stream"),
        full_text=flag_of(given, "return_full_text"),
        ignored=(frozenset(members) - {"inputs", "parameters", "stream"})
        | (frozenset(given) - _PARAMETERS),
    )


class GeneratedAnswer:
    """One answer in the form of text-generation-inference.

    Args:
        before: text that a whole answer begins with.
    """

    def __init__(self, before: str = "") -> None:
        self._before = before

    async def whole(self, reply: TextReply) -> bytes:
        await reply.until_end()
        return whole_answer(self._before + reply.text)

    async def events(self, reply: TextReply) -> AsyncGenerator[bytes]:
        """Yield an event for each piece of text; the last one also has the whole text."""
        index = 0
        async for piece in reply.pieces():
            index += 1
            yield token_data(piece, index, None if reply.finish is None else reply.text)
