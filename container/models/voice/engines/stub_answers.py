"""Answers without a model: they repeat what they were told, for benchmarks and tests of clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any


class StubAnswers:
    """Says ``You said: …``, word by word, at once.

    With ``tool_choice`` ``required``, or a function's name in it, the answer calls that function
    without arguments. After a function's output it says ``The tool said: …``.
    """

    def load(self, place: Path | None) -> None:
        """Load nothing."""

    async def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the deltas of an answer."""
        last = messages[-1] if messages else {}
        function = _function_asked(options)
        if function and last.get("role") != "tool":
            call = {"name": function, "arguments": "{}"}
            yield {
                "tool_calls": [
                    {"index": 0, "id": "call_stub", "type": "function", "function": call}
                ]
            }
            yield {"finish_reason": "tool_calls"}
            return
        said = _text_of(last.get("content"))
        opening = "The tool said:" if last.get("role") == "tool" else "You said:"
        words = f"{opening} {said}".split()
        most = options.get("max_tokens")
        for at, word in enumerate(words):
            if at == most:
                yield {"finish_reason": "length"}
                return
            await asyncio.sleep(0)  # other streams get their turn
            yield {"content": word if not at else f" {word}"}
        yield {"content": ".", "finish_reason": "stop"}


def _function_asked(options: Mapping[str, Any]) -> str:
    """Return the name of the function that must be called; empty for none."""
    choice = options.get("tool_choice")
    if isinstance(choice, Mapping):
        return str(choice["function"]["name"])
    tools = options.get("tools") or [{}]
    return str(tools[0].get("function", {}).get("name", "")) if choice == "required" else ""


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content.rstrip(".")
    parts = content if isinstance(content, list) else []
    return " ".join(part["text"] for part in parts if "text" in part) or json.dumps(content)
