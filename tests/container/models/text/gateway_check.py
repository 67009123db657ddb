"""A reply through the gateway is the engine's output, part by part. Needs the text extra."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.container.models.text.model import Text
from partway.container.models.text.settings import Sample
from partway.gateway.client import CompletionState, DataType, connect
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from tests.container.models.text.tiny import make_chain

#: Bytes of which none comes twice: each has one successor.
TEXTS = {
    "ASCII": "Helo, wrd!",
    "emoji": "a😀ñ",
    "CJK": "日中z",
    "all": "é日😀!",
}
#: Pairs of bytes that are one token, in byte level's alphabet: halves of code points, and the end
#: of one with the beginning of the next.
MERGED = {"emoji": ("ðŁ",), "CJK": ("æĹ",), "all": ("¥ð",)}


async def whole_output(model: Text, prompt: str, most: int) -> str:
    """What the engine makes of a prompt when nobody takes it in pieces."""
    conversation = [{"role": "user", "content": prompt}]
    tokenizer = model.tokenizer
    tokens = tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    async with model.engine.generate(tokens, most, Sample(temperature=0.0)) as generation:
        async for _ in generation:
            pass
        assert generation.finish in {"length", "stop"}
        return tokenizer.decode(generation.tokens, skip_special_tokens=True)


async def reply_in_parts(gateway_port: int, prompt: str) -> list[bytes]:
    """The parts of one reply: text, PARTIAL up to the last, which is COMPLETE."""
    parts = []
    async with connect(f"http://127.0.0.1:{gateway_port}", "text") as stream:
        await stream.send_text('{"type": "session", "format": "text", "temperature": 0}')
        await stream.send_text(prompt)
        async for part in stream:
            assert part.data_type is DataType.UTF8
            parts.append(part.payload)
            if part.completion is CompletionState.COMPLETE:
                return parts
    raise AssertionError("the reply has no end")


async def through_gateway(port: int, prompt: str) -> list[bytes]:
    endpoint = Endpoint.attached("text", Address("127.0.0.1", port), StreamPolicy())
    gateway = Gateway(Settings(port=0, endpoints=(endpoint,)))
    listening = await gateway.start()
    try:
        return await reply_in_parts(listening.port, prompt)
    finally:
        gateway.hasten()
        await gateway.drain()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize("name", TEXTS)
async def test_the_parts_are_the_engines_output(name: str, serve, tmp_path: Path) -> None:
    model, served = await serve(make_chain(tmp_path / "model", TEXTS[name], MERGED.get(name, ())))
    expected = await whole_output(model, "hi", 64)
    assert TEXTS[name][1:] in expected, "the model does not say what it should"
    parts = await through_gateway(port_of(served.url), "hi")
    assert b"".join(parts).decode() == expected
    for part in parts:
        part.decode()  # never half a code point
    assert len(parts) > 10, "they did not come one by one"


async def test_noise_too(serve, noise: Path) -> None:
    """Most of what it says is no UTF-8, and becomes U+FFFD."""
    model, served = await serve(noise)
    for prompt in ("a", "bb", "äöü", "日本"):
        expected = await whole_output(model, prompt, 64)
        assert "\ufffd" in expected
        parts = await through_gateway(port_of(served.url), prompt)
        assert b"".join(parts).decode() == expected
