"""Tools of a chat completion, and calls in messages that are sent back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from partway.container.models.text.request_members import Members, Refused, flag_of

MAX_TOOLS: Final = 128  # OpenAI's limit

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # OpenAI's
_CHOICES: Final = 'none, auto, required or {"type": "function", "function": {"name": …}}'


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request.

    Attributes:
        functions: each with ``name``, ``parameters`` and, maybe, ``description``.
        allowed_names: names of those that may be called.
        required: whether the reply must be a call.
        parallel: whether a reply may have several calls.
    """

    functions: tuple[dict[str, Any], ...]
    allowed_names: tuple[str, ...]
    required: bool = False
    parallel: bool = True

    def described(self) -> list[dict[str, Any]]:
        """Return the tools as chat templates take them."""
        return [{"type": "function", "function": each} for each in self.functions]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an earlier reply made, in a message that a client sends back."""

    name: str
    arguments: Any

    def described(self) -> dict[str, Any]:
        """Return the call as chat templates take it."""
        return {"type": "function", "function": {"name": self.name, "arguments": self.arguments}}


def tools_of(members: Members) -> Tools | None:
    """Parse ``tools``, ``tool_choice`` and ``parallel_tool_calls``; None if no tool may be called.

    Raises:
        Refused: a tool is no function, or the choice names none of them.
    """
    given = members.get("tools") or []
    if not isinstance(given, list) or len(given) > MAX_TOOLS:
        raise Refused(f"tools: must be a list of at most {MAX_TOOLS} functions")
    functions = tuple(_function(f"tools[{at}]", tool) for at, tool in enumerate(given))
    names = tuple(each["name"] for each in functions)
    if len(set(names)) < len(names):
        raise Refused("tools: two functions have the same name; each must have its own")
    choice = members.get("tool_choice", "auto" if functions else "none")
    if choice == "none" or (choice == "auto" and not functions):
        return None
    if not functions:
        raise Refused("tool_choice: there are no tools to choose from")
    parallel = flag_of(members, "parallel_tool_calls", default=True)
    if choice in ("auto", "required"):
        return Tools(functions, names, choice == "required", parallel)
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if name is None:
        raise Refused(f"tool_choice: must be {_CHOICES}")
    if name not in names:
        raise Refused("tool_choice: names a function that is not among the tools")
    return Tools(functions, (name,), required=True, parallel=parallel)


def _function(name: str, value: object) -> dict[str, Any]:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or value.get("type") != "function" or not function:
        raise Refused(f'{name}: must be {{"type": "function", "function": {{…}}}}')
    given = function.get("name") if isinstance(function, dict) else None
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise Refused(f"{name}.function.name: must have 1 to 64 of a-z, A-Z, 0-9, _ and -")
    parameters = function.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Refused(f"{name}.function.parameters: must be a JSON schema, as an object")
    described = {"type": "object", "properties": {}, **parameters}
    kept = {key: function[key] for key in ("name", "description") if function.get(key)}
    return {**kept, "parameters": described}


def calls_of(name: str, value: object) -> tuple[ToolCall, ...]:
    """Parse ``tool_calls`` of a message that is sent back.

    Raises:
        Refused: it is no list of calls.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Refused(f"{name}: must be a list of calls")
    return tuple(_call(f"{name}[{at}]", each) for at, each in enumerate(value))


def _call(name: str, value: object) -> ToolCall:
    function = value.get("function") if isinstance(value, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise Refused(f"{name}: must be a call with a function and its name")
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # a model may see a cut call as it was
            arguments = json.loads(arguments)
    return ToolCall(str(function["name"]), arguments)
