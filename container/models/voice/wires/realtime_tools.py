"""Functions that a Realtime session's model may call, in the form of chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from partway.container.models.voice.conversation import Item, new_id
from partway.container.models.voice.wires.realtime_session import SessionSettings


def chat_options(settings: SessionSettings) -> dict[str, Any]:
    """Return the members of a chat completion request beside its messages."""
    options: dict[str, Any] = {}
    if settings.tools and settings.tool_choice != "none":
        options["tools"] = [_chat_tool(tool) for tool in settings.tools]
        choice = settings.tool_choice
        if isinstance(choice, Mapping):
            options["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
        elif choice != "auto":
            options["tool_choice"] = choice
    if settings.max_output_tokens is not None:
        options["max_tokens"] = settings.max_output_tokens
    if settings.temperature is not None:
        options["temperature"] = settings.temperature
    return options


def _chat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {name: tool[name] for name in ("name", "description", "parameters")}
    return {"type": "function", "function": function}


class ToolCalls:
    """The calls of one answer, put together from its deltas."""

    def __init__(self) -> None:
        self._items: dict[int, Item] = {}

    def add(self, delta: object) -> str:
        """Add a delta of a call, and return the text that it adds; a malformed one adds none."""
        if not isinstance(delta, Mapping):
            return ""
        at = delta.get("index")
        at = at if isinstance(at, int) else len(self._items)
        item = self._items.setdefault(at, Item(new_id("item"), "function_call"))
        if isinstance(call_id := delta.get("id"), str) and call_id:
            item.call_id = call_id
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name"), function.get("arguments")
        name = name if isinstance(name, str) else ""
        arguments = arguments if isinstance(arguments, str) else ""
        item.name += name
        item.arguments += arguments
        return name + arguments

    def items(self) -> Iterator[Item]:
        """Yield the calls that name a function."""
        for item in self._items.values():
            if item.name:
                item.call_id = item.call_id or new_id("call")
                item.arguments = item.arguments or "{}"
                yield item
