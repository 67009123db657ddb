"""partway.gateway.containers.container_requests: one head, whatever its values hold."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.containers.container_requests import (
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.network.dialling import Address
from partway.protocol.errors import InputValidationError

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@given(st.text() | st.text(st.characters(max_codepoint=0x7F)))
def test_a_value_is_one_value_or_refused(value):
    headers = (("Accept", value), ("B", "c"))
    if any(letter != "\t" and not " " <= letter <= "~" for letter in value):
        with pytest.raises(InputValidationError, match="the header Accept must be of visible"):
            header_lines(headers)
        return
    request = ContainerRequest("/invocations", header_lines(headers), b"")
    assert request.head("a:1").split(b"\r\n") == [
        b"POST /invocations HTTP/1.1",
        b"Host: a:1",
        b"Accept: " + value.encode("ascii"),
        b"B: c",
        b"Content-Length: 0",
        b"",
        b"",
    ]


@pytest.mark.parametrize(
    ("address", "tls", "authority"),
    [
        (Address("a", 8080), None, "a:8080"),
        (Address("a", 443), None, "a:443"),
        (Address("a", 443), TLS, "a"),
        (Address("a", 8443), TLS, "a:8443"),
        (Address("::1", 8080), None, "[::1]:8080"),
    ],
)
def test_the_host_header(address, tls, authority):
    assert Destination(address, tls=tls).authority == authority


def test_a_get_has_no_body_and_no_length():
    request = ContainerRequest("/execution-parameters", "", b"", method="GET")
    assert request.head("a:1") == b"GET /execution-parameters HTTP/1.1\r\nHost: a:1\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "length", "framing"),
    [
        (b"x", None, b"Content-Length: 1"), (None, 7, b"Content-Length: 7"),
        (None, None, b"Transfer-Encoding: chunked"),
    ],
)  # fmt: skip
def test_a_body_is_always_framed(body, length, framing):
    """The next container of a GET gets the answer of the one before."""

    async def pieces():
        yield b""

    request = ContainerRequest("/v1/x", "", pieces() if body is None else body, length, "GET")
    assert framing + b"\r\n" in request.head("a:1")
