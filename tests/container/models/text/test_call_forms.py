"""What a chat template tells of tools and calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from partway.container.models.text.call_forms import HERMES, CallForm, call_form_of
from partway.container.models.text.request_members import Refused
from partway.container.models.text.tools import Tools

LLAMA = CallForm(arguments="parameters", in_template=True)
FUNCTIONS = ({"name": "f", "parameters": {"type": "object"}},)


class Tokenizer:
    """A tokenizer whose template is known by its text alone."""

    def __init__(self, template: str | None, *, shows_tools: bool = True, special: bool = False):
        self.chat_template = template
        self._shows_tools = shows_tools
        self._special = special

    def apply_chat_template(self, turns: object, *, tools: object, tokenize: bool) -> str:
        if self.chat_template == "fails":
            raise LookupError
        return f"{turns}{tools if self._shows_tools else ''}"

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, Any]:
        return {"input_ids": text if text.startswith("</") else [7]}

    def decode(self, tokens: object, *, skip_special_tokens: bool) -> str:
        return "" if self._special else "<tool_call></tool_call>"


IN_JSON = "<tool_call>\\n{name, arguments}\\n</tool_call>"


@pytest.mark.parametrize(
    ("tokenizer", "form"),
    [
        (Tokenizer(None), CallForm()),
        (Tokenizer("fails"), CallForm()),
        (Tokenizer("messages", shows_tools=False), CallForm()),
        (Tokenizer(IN_JSON, shows_tools=False), CallForm()),
        (Tokenizer(IN_JSON), replace(HERMES, tokens=(("<tool_call>", 7),))),
        (Tokenizer(IN_JSON, special=True), CallForm(in_template=True)),
        (Tokenizer("<tool_call><function=name>arguments"), CallForm(in_template=True)),
        (Tokenizer("[TOOL_CALLS]"), CallForm(in_template=True)),
        (Tokenizer('"parameters": dictionary of argument name and its value'), LLAMA),
    ],
)
def test_the_form_of_a_template(tokenizer: Tokenizer, form: CallForm) -> None:
    assert call_form_of(tokenizer) == form


@pytest.mark.parametrize("form", [CallForm(), CallForm(in_template=True), LLAMA])
def test_a_model_of_unknown_form_cannot_choose(form: CallForm) -> None:
    with pytest.raises(Refused, match="use required, or the model chat"):
        form.constraint(Tools(FUNCTIONS, ("f",)))
    assert form.constraint(Tools(FUNCTIONS, ("f",), required=True)).member == "tools"
