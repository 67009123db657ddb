"""Reading of calls from a reply's text, piece by piece."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from partway.container.models.text.call_forms import CallForm
from partway.container.models.text.stop_strings import beginning


@dataclass(slots=True)
class MadeCall:
    """A call in a reply, as a chat completion lists it."""

    name: str
    arguments: str = ""
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex}")

    def members(self) -> dict[str, object]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


class CallReader:
    """Splits a reply's text into content and calls, piece by piece.

    The text must be of the form's :meth:`CallForm.constraint`, possibly cut.

    Attributes:
        content: the text outside of calls.
        calls: the calls so far.
    """

    def __init__(self, form: CallForm) -> None:
        self._form = form
        self._rest = ""
        self._in_call = False
        self.content = ""
        self.calls: list[MadeCall] = []

    def add(self, piece: str) -> list[dict[str, object]]:
        """Add text; return the members ``delta`` of the chunks that tell of it."""
        self._rest += piece
        deltas: list[dict[str, object]] = []
        while (delta := self._next()) is not None:
            if delta:
                deltas.append(delta)
        return deltas

    def end(self, *, cut: bool) -> list[dict[str, object]]:
        """Take the rest of the text.

        Args:
            cut: whether the reply ended before its model ended it.
        """
        rest, self._rest = self._rest, ""
        if self._in_call and not cut:
            rest = rest.removesuffix(self._form.tail)
        if not rest:
            return []
        if self._in_call:
            return [self._arguments(rest)]
        return [self._text(rest)] if not rest.startswith(self._form.head) else []

    def _next(self) -> dict[str, object] | None:
        """Take a part of the text; return its delta, which may be empty, or None to wait."""
        form = self._form
        if self._in_call:
            return self._next_of_arguments()
        at = self._rest.find(form.head)
        if at < 0:
            at = beginning(form.head, self._rest)
            return self._text(self._taken(at)) if at else None
        if at:
            return self._text(self._taken(at))
        name, between, rest = self._rest[len(form.head) :].partition(form.between)
        if not between:
            return None
        self._rest = rest
        self._in_call = True
        self.calls.append(MadeCall(name))
        first = {"index": len(self.calls) - 1, **self.calls[-1].members()}
        return {"tool_calls": [first]}

    def _next_of_arguments(self) -> dict[str, object] | None:
        tail = self._form.tail
        if self._form.closing and (at := self._rest.find(tail)) >= 0:
            arguments = self._taken(at)
            self._taken(len(tail))
            self._in_call = False
            return self._arguments(arguments) if arguments else {}
        at = beginning(tail, self._rest) if self._form.closing else max(0, len(self._rest) - 1)
        return self._arguments(self._taken(at)) if at else None

    def _taken(self, size: int) -> str:
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _text(self, text: str) -> dict[str, object]:
        self.content += text
        return {"content": text}

    def _arguments(self, text: str) -> dict[str, object]:
        self.calls[-1].arguments += text
        index = len(self.calls) - 1
        return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
