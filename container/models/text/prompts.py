"""What was said, as the tokens that a model continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from container.models.text.asks import MAX_TEXT_BYTES, MAX_TURNS, Ask, Refused, Turn

#: What a conversation remembers, in characters; a context rarely holds more.
MAX_REMEMBERED = 4 * MAX_TEXT_BYTES

#: Of the context, the part that a remembered conversation leaves to the next reply.
_ROOM = 4


class Conversation:
    """What a stream and its model have said to each other, the oldest first."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        #: Whether the client said all of it, so that nothing may be left out.
        self.whole = False

    def ask(self, ask: Ask) -> None:
        """Take the client's next turn in, or all of the conversation, if it says that."""
        self.whole = ask.messages is not None
        if ask.messages is not None:
            self.turns = list(ask.messages)
        elif ask.prompt is not None:
            self.turns.append(Turn("user", ask.prompt))
            self._bound()

    def answered(self, text: str) -> None:
        """Take in what the model has said, as far as it came."""
        self.turns.append(Turn("assistant", text))

    def _bound(self) -> None:
        characters = sum(len(turn.content) for turn in self.turns)
        while len(self.turns) > MAX_TURNS or (characters > MAX_REMEMBERED and len(self.turns) > 1):
            characters -= len(self.turns.pop(_first(self.turns)).content)


class Prompts:
    """Makes tokens of conversations. Its methods compute: they are for a worker.

    Args:
        tokenizer: with the model's chat template; without one, turns are continued as they stand.
        context: most tokens of a prompt and its reply together.
    """

    def __init__(self, tokenizer: Any, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context
        self._chat = bool(tokenizer.chat_template)

    def tokens(self, turns: Sequence[Turn], most: int, *, whole: bool) -> list[int]:
        """The prompt for the next reply.

        A remembered conversation that has become too long loses its oldest turns, after what the
        system said; one that the client has said as a whole is refused instead.

        Args:
            turns: the last is a user's.
            most: tokens of the reply, for which room is left if there is enough of it.
            whole: whether the client has said all of it.

        Raises:
            Refused: the last turn alone is too long, or the template does not take the turns.
        """
        turns = list(turns)
        room = 1 if whole else min(most, self._context // _ROOM)
        while True:
            tokens = self._tokens(turns)
            if not tokens:
                raise Refused("the prompt is empty for this model's tokenizer")
            if len(tokens) + room <= self._context:
                return tokens
            if not whole and len(turns) - _first(turns) > 1:
                self._shorten(turns, len(tokens) + room)
            elif len(tokens) < self._context:
                return tokens
            else:
                raise Refused(
                    f"the prompt has {len(tokens)} tokens; the context holds {self._context}, "
                    "with the reply"
                )

    def _shorten(self, turns: list[Turn], tokens: int) -> None:
        """Leave out the oldest, as many as the share of tokens that are too many."""
        characters = sum(len(turn.content) + 1 for turn in turns)
        excess = characters * (tokens - self._context) / tokens
        first = _first(turns)
        while excess > 0 and len(turns) - first > 1:
            excess -= len(turns.pop(first).content) + 1
        if len(turns) - first > 1 and turns[first].role == "assistant":  # its question is gone
            del turns[first]

    def _tokens(self, turns: Sequence[Turn]) -> list[int]:
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


def _first(turns: Sequence[Turn]) -> int:
    """Where the conversation begins, after what the system said."""
    return 1 if turns and turns[0].role == "system" and len(turns) > 1 else 0


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:80]
