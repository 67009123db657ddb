"""What a model is asked to continue, and what of a long conversation it is."""

from __future__ import annotations

from typing import Any

import pytest

from partway.container.models.text.generation_request import MAX_TURNS, Ask, ChatTurn
from partway.container.models.text.prompts import MAX_REMEMBERED, Conversation, Prompts
from partway.container.models.text.request_members import Refused
from partway.container.models.text.tools import ToolCall, Tools


class Letters:
    """A tokenizer: a token for each character, and one for each turn of a chat.

    Args:
        shows_tools: whether the chat template tells of tools and calls.
    """

    def __init__(
        self, *, chat: bool = True, error: Exception | None = None, shows_tools: bool = False
    ) -> None:
        self.chat_template = "a template" if chat else None
        self._error = error
        self._shows_tools = shows_tools

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(
        self,
        turns: list[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        return_dict: bool = False,
        tools: list[dict[str, Any]] | None = None,
        tokenize: bool = True,
    ) -> Any:
        if self._error is not None:
            raise self._error
        shown = [
            f"<{turn['role'][0]}{turn['content']}{turn.get('tool_calls', '')}" for turn in turns
        ]
        if tools and self._shows_tools:
            shown.insert(0, f"[{tools[0]['function']['name']}]")
        text = "".join(shown) + "<"
        assert tokenize is return_dict is add_generation_prompt or not tokenize
        return self(text) if tokenize else text


def asked(tokens: list[int]) -> str:
    return "".join(map(chr, tokens))


def turns(*contents: str) -> list[ChatTurn]:
    """A conversation: ``s:`` is the system's, then user and assistant in turn."""
    made = []
    if contents[0].startswith("s:"):
        made.append(ChatTurn("system", contents[0][2:]))
        contents = contents[1:]
    for number, content in enumerate(contents):
        made.append(ChatTurn("assistant" if number % 2 else "user", content))
    return made


def test_turns_go_through_the_template() -> None:
    prompt = (
        Prompts(Letters(), 100)
        .prompt(turns("s:be brief", "hi", "ho", "go"), 10, whole=False)
        .tokens
    )
    assert asked(prompt) == "<sbe brief<uhi<aho<ugo<"


def test_without_a_template_they_stand_as_they_are() -> None:
    prompts = Prompts(Letters(chat=False), 100)
    assert asked(prompts.prompt(turns("hi ", "ho ", "go"), 10, whole=False).tokens) == "hi ho go"
    with pytest.raises(Refused, match="no chat template: it takes no system message"):
        prompts.prompt(turns("s:be brief", "hi"), 10, whole=False)


def test_a_long_conversation_loses_its_oldest_turns_but_not_the_systems() -> None:
    said = turns("s:S", "a" * 30, "b" * 30, "c" * 30, "d" * 30, "e")
    prompt = asked(Prompts(Letters(), 100).prompt(said, 20, whole=False).tokens)
    assert prompt.startswith("<sS<u")
    assert prompt.endswith("<ue<")
    assert "aaa" not in prompt
    assert len(prompt) <= 80, "there is room for the reply"


def test_what_was_left_out_is_told_so_that_it_is_not_looked_at_again() -> None:
    said = turns("s:S", "a" * 90, "b", "c")
    assert Prompts(Letters(), 50).prompt(said, 20, whole=False).turns == [said[0], said[3]]
    assert Prompts(Letters(), 500).prompt(said, 20, whole=False).turns == said


def test_a_reply_whose_question_is_gone_goes_too() -> None:
    said = turns("a" * 30, "b" * 10, "c" * 10)
    assert asked(Prompts(Letters(), 40).prompt(said, 1, whole=False).tokens) == f"<u{'c' * 10}<"


@pytest.mark.parametrize("context", range(12, 200, 7))
def test_whatever_the_context_it_is_kept(context: int) -> None:
    said = turns("s:S", *(letter * 17 for letter in "abcdefgh"), "end")
    prompt = Prompts(Letters(), context).prompt(said, 1000, whole=False).tokens
    assert len(prompt) < context
    assert asked(prompt).endswith("<uend<")


def test_the_last_turn_alone_is_too_long() -> None:
    with pytest.raises(
        Refused, match="the prompt has 43 tokens; with the reply it must fit into a context of 40"
    ):
        Prompts(Letters(), 40).prompt(turns("old", "older", "x" * 40), 5, whole=False)


def test_of_what_the_client_said_as_a_whole_nothing_is_left_out() -> None:
    said = turns("a" * 30, "b" * 30, "c")
    prompts = Prompts(Letters(), 70)
    with pytest.raises(Refused, match="the prompt has 68 tokens") as caught:
        Prompts(Letters(), 68).prompt(said, 5, whole=True)
    assert (caught.value.code, caught.value.status) == (1008, 400)
    assert len(prompts.prompt(said, 50, whole=True).tokens) == 68


def test_a_prompt_without_a_token() -> None:
    with pytest.raises(Refused, match="the tokenizer makes no tokens of this prompt"):
        Prompts(Letters(chat=False), 10).prompt(turns(""), 5, whole=False)


class TemplateError(Exception):
    """As jinja2 has it."""

    __module__ = "jinja2.exceptions"


@pytest.mark.parametrize(
    "error", [TemplateError("roles must alternate\nline 2"), ValueError("roles must alternate")]
)
def test_a_template_that_does_not_take_the_turns(error: Exception) -> None:
    with pytest.raises(
        Refused, match=r"^the chat template rejects the messages: roles must alternate$"
    ):
        Prompts(Letters(error=error), 100).prompt(turns("hi"), 5, whole=False)


def test_calls_that_are_nested_too_deeply_are_refused() -> None:
    with pytest.raises(Refused, match="nested too deeply"):
        Prompts(Letters(error=RecursionError()), 100).prompt(turns("hi"), 5, whole=False)


def test_a_fault_of_ours_is_no_refusal() -> None:
    with pytest.raises(LookupError):
        Prompts(Letters(error=LookupError()), 100).prompt(turns("hi"), 5, whole=False)


def test_what_is_remembered_is_bounded() -> None:
    conversation = Conversation()
    conversation.ask(Ask(messages=(ChatTurn("system", "S"), ChatTurn("user", "first"))))
    for _ in range(MAX_TURNS):
        conversation.answered("a")
        conversation.ask(Ask(prompt="b"))
    assert len(conversation.turns) <= MAX_TURNS
    assert conversation.turns[0] == ChatTurn("system", "S")

    conversation.ask(Ask(messages=(ChatTurn("user", "first"),)))
    for _ in range(5):
        conversation.answered("a")
        conversation.ask(Ask(prompt="b" * (MAX_REMEMBERED // 4)))
    assert sum(len(turn.content) for turn in conversation.turns) <= MAX_REMEMBERED
    assert conversation.turns[-1].role == "user"


TOOLS = Tools(({"name": "f", "parameters": {"type": "object"}},), ("f",), required=True)
CALLED = [ChatTurn("user", "hi"), ChatTurn("assistant", "", (ToolCall("f", {"a": 1}),))]


def test_tools_go_through_a_template_that_tells_of_them() -> None:
    prompts = Prompts(Letters(shows_tools=True), 1000)
    said = asked(prompts.prompt(CALLED, 10, whole=True, tools=TOOLS).tokens)
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert said == f"[f]<uhi<a{[call]}<"


@pytest.mark.parametrize(
    ("first", "begins"), [((), "<s"), ((ChatTurn("system", "Be brief."),), "<sBe brief.\n\n")]
)
def test_another_template_gets_them_in_the_system_s_turn(
    first: tuple[ChatTurn, ...], begins: str
) -> None:
    prompts = Prompts(Letters(), 1000)
    said = asked(prompts.prompt([*first, *CALLED], 10, whole=True, tools=TOOLS).tokens)
    assert said == (
        begins + "You can call these functions:\n"
        '{"name": "f", "parameters": {"type": "object"}}\n'
        "Answer the user with one call, written like this: "
        """{"name": "the function's name", "arguments": {…}}"""
        '<uhi<a{"name": "f", "arguments": {"a": 1}}<'
    )


def test_without_a_template_there_are_no_tools() -> None:
    with pytest.raises(Refused, match="tools: this model has no chat template"):
        Prompts(Letters(chat=False), 100).prompt(turns("hi"), 5, whole=True, tools=TOOLS)


def test_the_system_s_turn_is_set_and_set_again() -> None:
    conversation = Conversation()
    for system in ("A", "B"):
        conversation.instruct(system)
        conversation.ask(Ask(prompt="a"))
        assert [turn.content for turn in conversation.turns[:2]] == [system, "a"]
