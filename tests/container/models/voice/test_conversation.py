"""partway.container.models.voice.conversation: items, their order, the messages made of them."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.errors import ModelError
from partway.container.models.voice import conversation as module
from partway.container.models.voice.conversation import (
    ConversationItems,
    Item,
    ItemExists,
    NoSuchItem,
    Part,
    chat_messages,
    heard_all,
)


def said(role: str, text: str, name: str = "") -> Item:
    return Item(name, role=role, content=[Part("input_text", text)])


def call(call_id: str, name: str = "time") -> Item:
    return Item("", "function_call", call_id=call_id, name=name, arguments='{"a":1}')


def output(call_id: str, text: str) -> Item:
    return Item("", "function_call_output", call_id=call_id, output=text)


class TestOrder:
    def test_an_item_is_appended_unless_it_names_another_place(self) -> None:
        items = ConversationItems()
        assert items.add(said("user", "b", "b")) is None
        assert items.add(said("user", "d", "d")) == "b"
        assert items.add(said("user", "a", "a"), "root") is None
        assert items.add(said("user", "c", "c"), "b") == "b"
        assert [item.id for item in items.items] == ["a", "b", "c", "d"]

    def test_an_unknown_place_and_a_taken_id_change_nothing(self) -> None:
        items = ConversationItems()
        items.add(said("user", "a", "a"))
        with pytest.raises(NoSuchItem):
            items.add(said("user", "b"), "nowhere")
        with pytest.raises(ItemExists):
            items.add(said("user", "b", "a"))
        with pytest.raises(NoSuchItem):
            items.delete("b")
        assert [item.text for item in items.items] == ["a"]

    def test_an_item_without_an_id_gets_one(self) -> None:
        items = ConversationItems()
        items.add(said("user", "a"))
        items.add(said("user", "b"))
        first, second = items.items
        assert first.id != second.id
        assert items.find(second.id) is second

    def test_the_oldest_are_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_ITEMS", 2)
        monkeypatch.setattr(module, "MAX_REMEMBERED", 1_000)
        items = ConversationItems()
        for text in ("a", "b", "c"):
            items.add(said("user", text))
        assert [item.text for item in items.items] == ["b", "c"]
        items.add(said("user", "0123456789" * 100))
        assert [item.text for item in items.items] == ["0123456789" * 100]

    def test_an_item_that_has_grown_drops_the_oldest_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MAX_REMEMBERED", 1_000)
        items = ConversationItems()
        growing = said("user", "")
        for item in (growing, said("user", "b"), said("user", "c")):
            items.add(item)
        growing.content[0].text = "a" * 800
        items.measure(growing)
        assert [item.text[:1] for item in items.items] == ["a", "c"]
        items.delete(growing.id)
        items.measure(growing)  # it counts no more
        items.add(said("user", "d" * 800))
        assert [item.text[:1] for item in items.items] == ["c", "d"]

    def test_only_the_new_item_is_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        measured: list[str] = []

        def size(item: Item) -> int:
            measured.append(item.id)
            return 1

        monkeypatch.setattr(Item, "size", property(size))
        items = ConversationItems()
        for name in ("a", "b", "c"):
            items.add(said("user", "", name))
        assert measured == ["a", "b", "c"]

    def test_empty_parts_count(self) -> None:
        parts = [Part("input_text") for _ in range(64)]
        assert Item("", content=parts).size >= 64 * 64

    @pytest.mark.parametrize(
        "item",
        [
            Item("x" * 1_000),
            Item("", call_id="x" * 1_000),
            Item("", name="x" * 1_000),
            Item("", content=[Part("input_image", detail="x" * 1_000)]),
        ],
    )
    def test_all_that_an_item_keeps_is_counted(self, item: Item) -> None:
        assert item.size >= 1_000


class TestMessages:
    def test_turns_of_one_role_are_joined(self) -> None:
        items = [said("user", "a"), said("user", "b"), said("assistant", "c"), said("user", "d")]
        assert chat_messages(items, "Be kind.") == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "a\nb"},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
        ]

    def test_instructions_and_outputs_of_calls_join_only_with_their_like(self) -> None:
        items = [said("system", "a"), call("1"), call("2"), output("1", "ten"), output("2", "one")]
        messages = chat_messages(items, "Be kind.")
        assert [(each["role"], each["content"]) for each in messages] == [
            ("system", "Be kind.\na"),
            *[("assistant", None), ("tool", "ten")],
            *[("assistant", None), ("tool", "one")],
        ]

    def test_a_message_of_which_nothing_was_heard_is_left_out(self) -> None:
        assert chat_messages([said("user", "a"), said("assistant", "")], "") == [
            {"role": "user", "content": "a"}
        ]

    def test_a_call_has_its_output_behind_it(self) -> None:
        items = [call("1"), said("user", "hurry"), output("1", "ten")]
        function = {"name": "time", "arguments": '{"a":1}'}
        called = {"id": "1", "type": "function", "function": function}
        assert chat_messages(items, "") == [
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "1", "content": "ten"},
            {"role": "user", "content": "hurry"},
        ]

    def test_a_call_and_an_output_alone_are_left_out(self) -> None:
        assert chat_messages([call("1"), output("2", "ten")], "") == []

    def test_an_image_goes_with_its_text(self) -> None:
        url = "data:image/png;base64,AA=="
        parts = [Part("input_text", "look"), Part("input_image", image_url=url, detail="low")]
        assert chat_messages([Item("", role="user", content=parts)], "") == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
                ],
            }
        ]


class TestHearing:
    async def test_texts_are_waited_for(self, anyio_backend: object) -> None:
        item = Item("", role="user", content=[Part("input_audio")], hearing=asyncio.Event())
        waiting = asyncio.create_task(heard_all([item]))
        await asyncio.sleep(0)
        assert not waiting.done()
        item.heard("hello")
        await waiting
        assert item.text == "hello"

    async def test_only_the_last_failure_counts(self, anyio_backend: object) -> None:
        ill = Item("", role="user", content=[Part("input_audio")], hearing=asyncio.Event())
        ill.unheard(ModelError("the ear is ill"))
        with pytest.raises(ModelError, match="the ear is ill"):
            await heard_all([ill])
        await heard_all([ill, said("user", "typed instead")])
