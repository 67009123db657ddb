"""Forms of calls: how a model writes them, and the grammar that makes it do so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from partway.container.models.text.output_constraints import Constraint, json_rule
from partway.container.models.text.request_members import Refused
from partway.container.models.text.tools import ToolCall, Tools

_UNKNOWN_FORM: Final = (
    "the chat template has no form of calls that is known; use required, or the model chat"
)

#: Tokens that llguidance takes for special ones, also where their tokenizer does not.
_IN_ANGLES: Final = re.compile(r"<.*>")


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a model writes calls: ``{"name": "…", "arguments": {…}}``, between two marks or alone.

    Attributes:
        opening: the mark before a call; empty if a reply is one call and nothing else.
        closing: the mark after it.
        arguments: the name of the member with the arguments.
        in_template: whether the chat template tells the model of its tools.
        tokens: the marks that are one token each, which llguidance takes by their numbers only.
        text_tokens: other tokens of text that llguidance takes by their numbers, such as those
            around a thought.
    """

    opening: str = ""
    closing: str = ""
    arguments: str = "arguments"
    in_template: bool = False
    tokens: tuple[tuple[str, int], ...] = ()
    text_tokens: tuple[int, ...] = ()

    @property
    def head(self) -> str:
        """The beginning of every call, up to the function's name."""
        return f'{self.opening}\n{{"name": "' if self.opening else '{"name": "'

    @property
    def between(self) -> str:
        return f'", "{self.arguments}": '

    @property
    def tail(self) -> str:
        return f"}}\n{self.closing}" if self.closing else "}"

    def written(self, call: ToolCall) -> str:
        """Return a call as the model would have written it."""
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        return f"{self.head}{call.name}{self.between}{arguments}{self.tail}"

    def instructions(self, tools: Tools) -> str:
        """Return a system's turn for chat templates that do not tell of tools."""
        listed = "\n".join(json.dumps(each, ensure_ascii=False) for each in tools.functions)
        example = f"{self.head}the function's name{self.between}{{…}}{self.tail}"
        return (
            f"You can call these functions:\n{listed}\n"
            f"Answer the user with one call, written like this: {example}"
        )

    def constraint(self, tools: Tools) -> Constraint:
        """Return the form of a reply that calls tools with valid arguments.

        Raises:
            Refused: the model does not know how to decide between text and a call.
        """
        if not tools.required and not (self.in_template and self.opening):
            raise Refused(f"tool_choice: {_UNKNOWN_FORM}")
        schemas = {each["name"]: each["parameters"] for each in tools.functions}
        lines = ["%llguidance {}"]
        # After free text the grammar takes over at the opening mark.
        head = self.head if tools.required else self.head.removeprefix(self.opening)
        tail = self._grammar_of(self.tail)
        for at, name in enumerate(tools.allowed_names):
            before = self._grammar_of(head + name + self.between)
            lines.append(f"call_{at}: {before} arguments_{at} {tail}")
            lines.append(f"arguments_{at}: {json_rule('tools', schemas[name])}")
        lines.append("call: " + " | ".join(f"call_{at}" for at in range(len(tools.allowed_names))))
        lines += ["start: call"] if tools.required else self._free_text(parallel=tools.parallel)
        return Constraint("tools", "\n".join(lines))

    def _free_text(self, *, parallel: bool) -> list[str]:
        """Return the rules of text in which the opening mark begins a call."""
        opening = self._grammar_of(self.opening)
        if self.opening in dict(self.tokens):
            others = f" | <[{','.join(map(str, self.text_tokens))}]>" if self.text_tokens else ""
            lines = [f"text: (TEXT{others})*", f"called: text {opening} call"]
        else:
            lines = ["text: TEXT?", f"opening[lazy]: TEXT? {opening}", "called: opening call"]
        start = "called* text" if parallel else "called | text"
        return [*lines, r"TEXT: /(.|\n)+/", f"start: {start}"]

    def _grammar_of(self, text: str) -> str:
        """Return text as it stands in a grammar."""
        for mark, token in self.tokens:
            before, found, after = text.partition(mark)
            if found:
                parts = (self._grammar_of(before), f"<[{token}]>", self._grammar_of(after))
                return " ".join(part for part in parts if part)
        return json.dumps(text) if text else ""


#: The form of Hermes's and Qwen's models.
HERMES: Final = CallForm("<tool_call>", "</tool_call>", in_template=True)


def call_form_of(tokenizer: Any) -> CallForm:
    """Return how a model writes calls, as far as its chat template tells."""
    template = str(tokenizer.chat_template or "")
    if not _shows_tools(tokenizer):
        return CallForm()
    if all(mark in template for mark in ("<tool_call>", "arguments")) and (
        "<function=" not in template  # calls in XML
        and _is_text(tokenizer, HERMES.opening + HERMES.closing)
    ):
        tokens = _tokens(tokenizer, HERMES.opening, HERMES.closing)
        return replace(HERMES, tokens=tokens, text_tokens=_text_tokens(tokenizer, dict(tokens)))
    is_llama = '"parameters": dictionary' in template
    return CallForm(arguments="parameters" if is_llama else "arguments", in_template=True)


def _shows_tools(tokenizer: Any) -> bool:
    if not tokenizer.chat_template:
        return False
    function = {"name": "f", "description": "", "parameters": {"type": "object", "properties": {}}}
    turns = [{"role": "user", "content": "a"}]
    try:
        with_tool, without = (
            tokenizer.apply_chat_template(turns, tools=tools, tokenize=False)
            for tools in ([{"type": "function", "function": function}], None)
        )
    except Exception:  # a template is a program, and may fail in any way
        return False
    return bool(with_tool != without)


def _is_text(tokenizer: Any, marks: str) -> bool:
    """Whether marks are text to the tokenizer; special tokens do not appear in replies."""
    tokens = tokenizer(marks, add_special_tokens=False)["input_ids"]
    return marks in str(tokenizer.decode(tokens, skip_special_tokens=True))


def _tokens(tokenizer: Any, *marks: str) -> tuple[tuple[str, int], ...]:
    encoded = ((mark, tokenizer(mark, add_special_tokens=False)["input_ids"]) for mark in marks)
    return tuple((mark, tokens[0]) for mark, tokens in encoded if len(tokens) == 1)


def _text_tokens(tokenizer: Any, marks: Mapping[str, int]) -> tuple[int, ...]:
    added: Mapping[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
    return tuple(
        token
        for token, each in sorted(added.items())
        if _IN_ANGLES.fullmatch(each.content) and not each.special and each.content not in marks
    )
