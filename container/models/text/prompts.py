"""What was said, as the tokens that a model continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from partway.container.models.text.generation_request import (
    MAX_TEXT_BYTES,
    MAX_TURNS,
    Ask,
    ChatTurn,
    Refused,
)

#: What a conversation remembers, in characters; a context rarely holds more.
MAX_REMEMBERED = 4 * MAX_TEXT_BYTES

#: Of the context, the part that a remembered conversation leaves to the next reply.
_ROOM = 4


class Conversation:
    """What a stream and its model have said to each other, the oldest first."""

    def __init__(self) -> None:
        self.turns: list[ChatTurn] = []
        #: Whether the client said the whole conversation, so that nothing may be left out.
        self.whole = False

    def ask(self, ask: Ask) -> None:
        """Take in the client's next turn, or a whole conversation, if the client sends one."""
        self.whole = ask.messages is not None
        if ask.messages is not None:
            self.turns = list(ask.messages)
        elif ask.prompt is not None:
            self.turns.append(ChatTurn("user", ask.prompt))
            self._bound()

    def answered(self, text: str) -> None:
        """Take in what the model has said, as far as it came."""
        self.turns.append(ChatTurn("assistant", text))

    def _bound(self) -> None:
        characters = sum(len(turn.content) for turn in self.turns)
        while len(self.turns) > MAX_TURNS or (characters > MAX_REMEMBERED and len(self.turns) > 1):
            characters -= len(self.turns.pop(_first(self.turns)).content)


class Prompt(NamedTuple):
    """What a model is asked to continue.

    Attributes:
        tokens: the prompt's tokens.
        turns: the turns that it holds: all of them, or what is left of a long conversation.
    """

    tokens: list[int]
    turns: list[ChatTurn]


class Prompts:
    """Makes tokens of conversations. Its methods compute: they are for a worker.

    Args:
        tokenizer: the model's; without a chat template, turns are continued as they stand.
        context: most tokens of a prompt and its reply together.
    """

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._chat = bool(tokenizer.chat_template)

    def prompt(self, turns: Sequence[ChatTurn], most: int, *, whole: bool) -> Prompt:
        """The prompt for the next reply.

        A remembered conversation that has become too long loses its oldest turns, after what the
        system said; one that the client has said as a whole is refused instead.

        Args:
            turns: the conversation, whose last turn is a user's.
            most: tokens of the reply, for which room is left if there is enough of it.
            whole: whether the client has said the whole conversation.

        Raises:
            Refused: the last turn alone is too long, or the template does not take the turns.
        """
        room = 1 if whole else min(most, self._context // _ROOM)
        prompt = Prompt(self._tokens(turns), list(turns))
        if not prompt.tokens:
            raise Refused("the prompt is empty for this model's tokenizer")
        if len(prompt.tokens) + room > self._context and not whole:
            prompt = self._shortened(turns, room) or prompt
        if len(prompt.tokens) < self._context:
            return prompt
        raise Refused(
            f"the prompt has {len(prompt.tokens)} tokens; the context holds {self._context}, "
            "with the reply"
        )

    def _shortened(self, turns: Sequence[ChatTurn], room: int) -> Prompt | None:
        """As few of the oldest left out as will do; all but the last, if none of it will.

        By halves, since each look costs as much as the tokens are many, and a conversation can be
        made so that one turn after the other hardly changes their number.
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

    def _tokens(self, turns: Sequence[ChatTurn]) -> list[int]:
        if not self._chat:
            if any(turn.role == "system" for turn in turns):
                raise Refused("this model has no chat template: it takes no system message")
            return list(self._tokenizer("".join(turn.content for turn in turns))["input_ids"])
        try:
            encoded = self._tokenizer.apply_chat_template(
                [{"role": turn.role, "content": turn.content} for turn in turns],
                add_generation_prompt=True,
                return_dict=True,
            )
        except (TypeError, ValueError, KeyError) as error:
            raise Refused(f"the chat template: {_first_line(error)}") from error
        except Exception as error:
            if type(error).__module__.startswith("jinja2"):  # what a template says by itself
                raise Refused(f"the chat template: {_first_line(error)}") from error
            raise
        return list(encoded["input_ids"])


def _first(turns: Sequence[ChatTurn]) -> int:
    """Where the conversation begins, after what the system said."""
    return 1 if turns and turns[0].role == "system" and len(turns) > 1 else 0


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:80]
