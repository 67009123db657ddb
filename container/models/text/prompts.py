"""Prompts: a conversation as tokens for the model to continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from partway.container.models.text.call_forms import CallForm, call_form_of
from partway.container.models.text.generation_request import MAX_TURNS, Ask, ChatTurn
from partway.container.models.text.request_members import MAX_TEXT_BYTES, Refused
from partway.container.models.text.tools import Tools

#: Most characters of a remembered conversation; a context rarely holds more.
MAX_REMEMBERED = 4 * MAX_TEXT_BYTES

#: A remembered conversation leaves at most this part of the context (1/4) for the next reply.
_ROOM = 4


class Conversation:
    """The turns of a stream and its model, the oldest first."""

    def __init__(self) -> None:
        self.turns: list[ChatTurn] = []
        #: Whether the client sent the whole conversation, so that no turn may be left out.
        self.whole = False

    def ask(self, ask: Ask) -> None:
        """Add the client's next turn, or take over a whole conversation."""
        self.whole = ask.messages is not None
        if ask.messages is not None:
            self.turns = list(ask.messages)
        elif ask.prompt is not None:
            self.turns.append(ChatTurn("user", ask.prompt))
            self._bound()

    def instruct(self, system: str) -> None:
        """Set the system's turn."""
        if self.turns and self.turns[0].role == "system":
            del self.turns[0]
        self.turns.insert(0, ChatTurn("system", system))

    def answered(self, text: str) -> None:
        """Add the model's turn, as far as it was sent."""
        self.turns.append(ChatTurn("assistant", text))

    def _bound(self) -> None:
        characters = sum(len(turn.content) for turn in self.turns)
        while len(self.turns) > MAX_TURNS or (characters > MAX_REMEMBERED and len(self.turns) > 1):
            characters -= len(self.turns.pop(_first(self.turns)).content)


class Prompt(NamedTuple):
    """The text that a model continues.

    Attributes:
        turns: its turns: all of them, or the last ones of a long conversation.
    """

    tokens: list[int]
    turns: list[ChatTurn]


class Prompts:
    """Converts conversations to tokens. Its methods compute, and must be called on a worker.

    Args:
        tokenizer: the model's tokenizer; without a chat template, the text of the turns is
            continued as it is.
        context: most tokens of a prompt and its reply together.
    """

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._chat = bool(tokenizer.chat_template)
        self.call_form = call_form_of(tokenizer)

    def prompt(
        self, turns: Sequence[ChatTurn], most: int, *, whole: bool, tools: Tools | None = None
    ) -> Prompt:
        """Make the prompt for the next reply.

        If a remembered conversation is too long, its oldest turns after the system's are left out.
        A conversation that the client sent as a whole is refused instead.

        Args:
            turns: the conversation, whose last turn is a user's.
            most: most tokens of the reply; room is left for them if possible.
            whole: whether the client sent the whole conversation.
            tools: the tools that the model may call; only in a whole conversation.

        Raises:
            Refused: the last turn alone is too long, or the template refuses the turns.
        """
        room = 1 if whole else min(most, self._context // _ROOM)
        prompt = Prompt(self._tokens(turns, tools), list(turns))
        if not prompt.tokens:
            raise Refused(
                "the tokenizer makes no tokens of this prompt; send a text that is not empty"
            )
        if len(prompt.tokens) + room > self._context and not whole:
            prompt = self._shortened(turns, room) or prompt
        self._check_fits(prompt.tokens)
        return prompt

    def raw(self, text: str) -> list[int]:
        """Return the tokens of a prompt that is continued as it is.

        Raises:
            Refused: the text gives no tokens, or more than fit with a reply.
        """
        tokens = list(self._tokenizer(text)["input_ids"])
        if not tokens:
            raise Refused("the prompt gives no tokens")
        self._check_fits(tokens)
        return tokens

    def _check_fits(self, tokens: Sequence[int]) -> None:
        if len(tokens) >= self._context:
            raise Refused(
                f"the prompt has {len(tokens)} tokens; with the reply it must fit into a "
                f"context of {self._context}"
            )

    def _shortened(self, turns: Sequence[ChatTurn], room: int) -> Prompt | None:
        """Leave out as few of the oldest turns as possible, up to all but the last.

        The search halves the range. Each try costs time in proportion to the tokens, and in a
        hostile conversation single turns hardly change their number.
        """
        first = _first(turns)
        begins = [at for at in range(first + 1, len(turns)) if turns[at].role != "assistant"]
        fitting: Prompt | None = None
        while begins:
            middle = (len(begins) - 1) // 2
            kept = [*turns[:first], *turns[begins[middle] :]]
            tokens = self._tokens(kept)
            if len(tokens) + room <= self._context or (len(begins) == 1 and fitting is None):
                fitting, begins = Prompt(tokens, kept), begins[:middle]
            else:
                begins = begins[middle + 1 :]
        return fitting

    def _tokens(self, turns: Sequence[ChatTurn], tools: Tools | None = None) -> list[int]:
        if not self._chat:
            if tools is not None:
                raise Refused("tools: this model has no chat template; leave them out")
            if any(turn.role == "system" for turn in turns):
                raise Refused("this model has no chat template: it takes no system message")
            return list(self._tokenizer("".join(turn.content for turn in turns))["input_ids"])
        more: dict[str, Any] = {}
        try:
            messages = [_message(turn, self.call_form) for turn in turns]
            if tools is not None and self.call_form.in_template:
                more["tools"] = tools.described()
            elif tools is not None:
                messages = _instructed(messages, self.call_form.instructions(tools))
            encoded = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=True, **more
            )
        except RecursionError:
            raise Refused("the arguments of a call or a tool are nested too deeply") from None
        except (TypeError, ValueError, KeyError) as error:
            raise _rejected(error) from error
        except Exception as error:
            if type(error).__module__.startswith("jinja2"):  # the template's own message
                raise _rejected(error) from error
            raise
        return list(encoded["input_ids"])


def _message(turn: ChatTurn, form: CallForm) -> dict[str, Any]:
    """Return a turn as chat templates take it."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.calls and form.in_template:
        message["tool_calls"] = [each.described() for each in turn.calls]
    elif turn.calls:
        parts = [turn.content, *map(form.written, turn.calls)]
        message["content"] = "\n".join(part for part in parts if part)
    return message


def _instructed(messages: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Add text to the system's message, or a new one."""
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]


def _rejected(error: Exception) -> Refused:
    return Refused(f"the chat template rejects the messages: {_first_line(error)}")


def _first(turns: Sequence[ChatTurn]) -> int:
    """Return the index of the first turn after the system's."""
    return 1 if turns and turns[0].role == "system" and len(turns) > 1 else 0


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:80]
