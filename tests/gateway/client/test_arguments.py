"""partway.gateway.client.arguments: what is said of an argument of the wrong type, and when."""

from __future__ import annotations

import pytest

from partway.gateway.client import CompletionState, DataType, PayloadPart, connect
from tests.gateway.client.peers import url_of
from tests.wire.peers import ENDPOINT, soon


@pytest.mark.parametrize(
    ("method", "given", "why"),
    [
        ("send", "hi", "part: a str was given; it must be a PayloadPart; send_text() takes it"),
        ("send", b"hi", "part: bytes was given; it must be a PayloadPart; send_bytes() takes it"),
        ("send", 5, "part: an int was given; it must be a PayloadPart"),
        ("send", None, "part: None was given; it must be a PayloadPart"),
        ("send", PayloadPart("hi"), "part.payload: a str was given; it must be bytes"),
        (
            "send",
            PayloadPart(b"hi", "UTF8"),
            "part.data_type: a str was given; it must be a DataType, as in DataType.UTF8",
        ),
        (
            "send",
            PayloadPart(b"hi", DataType.UTF8, True),
            (
                "part.completion: a bool was given; it must be a CompletionState, as in "
                "CompletionState.PARTIAL"
            ),
        ),
        ("send_text", b"hi", "text: bytes was given; it must be a str; send_bytes() takes it"),
        ("send_text", None, "text: None was given; it must be a str"),
        ("send_bytes", "hi", "data: a str was given; it must be bytes; send_text() takes it"),
        ("send_bytes", [1], "data: a list was given; it must be bytes"),
    ],
)
async def test_it_says_what_it_takes_and_sends_nothing(
    transport, gateway_for, container, method, given, why
):
    """The stream goes on: the next part is the first that the model hears."""
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        with pytest.raises(TypeError) as caught:
            await getattr(stream, method)(given)
        assert str(caught.value) == why
        await stream.send_text("next")
        assert (await soon(model.frame())).payload == b"next"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bytes_of_any_kind_are_taken_as_they_are_now(transport, gateway_for, container, kind):
    gateway = await gateway_for()
    source = bytearray(b"as it was")
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        await stream.send_bytes(bytes(source) if kind is bytes else kind(source))
        source[:] = b"different"
        assert (await soon(model.frame())).payload == b"as it was"


async def test_a_part_of_the_right_types_goes(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        await stream.send(PayloadPart(b"", DataType.UTF8, CompletionState.PARTIAL))
        seen = await soon(model.frame())
    assert (seen.payload, seen.fin) == (b"", False)
