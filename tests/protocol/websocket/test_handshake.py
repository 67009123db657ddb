from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.server import ServerProtocol

from partway.protocol.limits import HANDSHAKE_HEAD_BYTES
from partway.protocol.websocket.handshake import (
    Accepted,
    ClientHandshake,
    HandshakeBroken,
    HandshakeRefused,
    UpgradeError,
    accept_key,
    check_upgrade,
    finishes_before_close,
    is_upgrade,
    tokens,
    upgrade_headers,
)

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # RFC 6455 §1.3's example
KEY_ACCEPTED = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


# --- Both sides ----------------------------------------------------------------------------------


def test_accept_key_is_the_rfcs_example():
    assert accept_key(KEY) == KEY_ACCEPTED


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"x-partway-close": "after-answer"}, True),
        ({"x-partway-close": " After-Answer "}, True),
        ({"x-partway-close": "at-once"}, False),
        ({"x-partway-close": ""}, False),
    ],
)
def test_when_a_close_is_answered(headers, expected):
    assert finishes_before_close(headers) is expected
    assert Accepted(headers, None, b"").finishes_before_close is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        (" a ,\tB , a", ["a", "B", "a"]),
        (",,a,", ["a"]),
        ("keep-alive, Upgrade", ["keep-alive", "Upgrade"]),
    ],
)
def test_tokens(value, expected):
    assert tokens(value) == expected


# --- Server --------------------------------------------------------------------------------------


def request_headers(**changes):
    """A good upgrade's headers with changes, underscores standing for dashes; None removes one."""
    headers = CIMultiDict(
        {
            "Host": "example",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": KEY,
            "Sec-WebSocket-Version": "13",
        }
    )
    for name, value in changes.items():
        headers.popall(name.replace("_", "-"), None)
        if value is not None:
            headers[name.replace("_", "-")] = value
    return headers


@pytest.mark.parametrize(
    ("value", "expected"),
    [("websocket", True), ("WebSocket", True), ("h2c", False), ("", False), (None, False)],
)
def test_is_upgrade(value, expected):
    assert is_upgrade(request_headers(Upgrade=value)) is expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Connection": "keep-alive, Upgrade"},
        {"Connection": "upgrade"},
        {"Connection": "UPGRADE,keep-alive"},
        {"Sec_WebSocket_Version": " 13 "},
        {"Sec_WebSocket_Key": f" {KEY} "},
        {"Sec_WebSocket_Extensions": "permessage-deflate"},
        {"Sec_WebSocket_Protocol": "chat"},
        {"Content-Length": "0"},
    ],
)
def test_check_upgrade_returns_the_key(changes):
    assert check_upgrade("GET", request_headers(**changes)) == KEY


NO_BODY = "a request for an upgrade must not have a body"


@pytest.mark.parametrize(
    ("method", "changes", "status", "reason", "headers"),
    [
        ("POST", {}, 405, "a WebSocket must be opened with GET", {"Allow": "GET"}),
        ("get", {}, 405, "a WebSocket must be opened with GET", {"Allow": "GET"}),
        ("GET", {"Content-Length": "1"}, 400, NO_BODY, {}),
        ("GET", {"Content-Length": "00"}, 400, NO_BODY, {}),
        ("GET", {"Transfer-Encoding": "chunked"}, 400, NO_BODY, {}),
        ("GET", {"Transfer-Encoding": ""}, 400, NO_BODY, {}),
        ("GET", {"Connection": None}, 400, "the Connection header must name Upgrade", {}),
        ("GET", {"Connection": "keep-alive"}, 400, "the Connection header must name Upgrade", {}),
        ("GET", {"Connection": "Upgraded"}, 400, "the Connection header must name Upgrade", {}),
        *(
            ("GET", {"Sec_WebSocket_Version": version}, 426, "Sec-WebSocket-Version must be 13",
             {"Sec-WebSocket-Version": "13"})
            for version in (None, "", "8", "12", "14", "013", "13, 8", "thirteen")
        ),
        *(
            ("GET", {"Sec_WebSocket_Key": key}, 400,
             "Sec-WebSocket-Key must be 16 bytes in base64", {})
            for key in (
                None, "", "x", KEY[:-1], KEY[:-2], KEY + "=", "ä" * 24,
                base64.b64encode(b"x" * 15).decode(), base64.b64encode(b"x" * 17).decode(),
                f"{KEY}, {KEY}", KEY.replace("G", "-"),
            )
        ),
    ],
)  # fmt: skip
def test_check_upgrade_refuses(method, changes, status, reason, headers):
    with pytest.raises(UpgradeError) as refused:
        check_upgrade(method, request_headers(**changes))
    assert refused.value.status == status
    assert refused.value.reason == str(refused.value) == reason
    assert refused.value.headers == headers


@pytest.mark.clause("1.2-6")
def test_upgrade_headers():
    assert upgrade_headers(KEY) == {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": KEY_ACCEPTED,
    }
    with_subprotocol = {**upgrade_headers(KEY), "Sec-WebSocket-Protocol": "chat"}
    assert upgrade_headers(KEY, "chat") == with_subprotocol


# --- Client --------------------------------------------------------------------------------------


def parsed(handshake):
    """The request as another implementation reads it."""
    server = ServerProtocol()
    server.receive_data(handshake.request)
    (request,) = server.events_received()
    return request


def response(handshake, status="101 Switching Protocols", *lines, changes=None):
    """An answer to ``handshake``, a good one but for ``changes``; None removes a header."""
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept_key(parsed(handshake).headers["Sec-WebSocket-Key"]),
        **(changes or {}),
    }
    text = "".join(
        f"{line}\r\n"
        for line in (
            f"HTTP/1.1 {status}",
            *(f"{name}: {value}" for name, value in headers.items() if value is not None),
            *lines,
            "",
        )
    )
    return text.encode("latin-1")


def refusal(status_line, *lines, body=b""):
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status_line}", *lines, ""))
    return head.encode() + body


@pytest.mark.clause("1.2-6")
def test_the_request():
    handshake = ClientHandshake(
        "container:8080", "/v1/listen?model=x%20y", [("X-Amzn-SageMaker-Request-Id", "id")]
    )
    lines = handshake.request.decode().split("\r\n")
    key = parsed(handshake).headers["Sec-WebSocket-Key"]
    assert lines == [
        "GET /v1/listen?model=x%20y HTTP/1.1",
        "Host: container:8080",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        "X-Amzn-SageMaker-Request-Id: id",
        "",
        "",
    ]
    assert len(base64.b64decode(key, validate=True)) == 16


def test_each_handshake_has_a_key_of_its_own():
    keys = {parsed(ClientHandshake("a", "/")).headers["Sec-WebSocket-Key"] for _ in range(50)}
    assert len(keys) == 50


def test_subprotocols_are_offered_best_first():
    request = parsed(ClientHandshake("a", "/", subprotocols=["b", "a"]))
    assert request.headers["Sec-WebSocket-Protocol"] == "b, a"
    assert "Sec-WebSocket-Protocol" not in parsed(ClientHandshake("a", "/")).headers


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/a b", []),
        ("/a\r\nX: y", []),
        ("/", [("X", "a\r\nY: b")]),
        ("/", [("X: a\r\nY", "b")]),
        ("/", [("X", "a\x00b")]),
    ],
)
def test_nothing_is_smuggled_into_the_request(target, headers):
    with pytest.raises(Exception, match=r"[Ii]llegal"):
        ClientHandshake("a", target, headers)


def test_another_implementations_server_accepts_it():
    server = ServerProtocol(subprotocols=["y", "x"])
    handshake = ClientHandshake("example:80", "/path", subprotocols=["x", "y"])
    server.receive_data(handshake.request)
    (request,) = server.events_received()
    server.send_response(server.accept(request))
    accepted = handshake.receive(b"".join(server.data_to_send()))
    assert accepted.subprotocol in {"x", "y"}
    assert accepted.headers["upgrade"] == "websocket"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Upgrade": "WebSocket"},
        {"Connection": "keep-alive, upgrade"},
        {"Connection": "UPGRADE"},
        {"Sec-WebSocket-Extensions": ""},
        {"X-Other": "anything"},
    ],
)
def test_good_answers(changes):
    handshake = ClientHandshake("a", "/")
    accepted = handshake.receive(response(handshake, changes=changes))
    assert accepted == Accepted(accepted.headers, None, b"")
    assert accepted.headers["sec-websocket-accept"]


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Upgrade": None}, "the Upgrade header of the 101 must be websocket"),
        ({"Upgrade": "h2c"}, "the Upgrade header of the 101 must be websocket"),
        ({"Upgrade": "websocket, h2c"}, "the Upgrade header of the 101 must be websocket"),
        ({"Connection": None}, "the Connection header of the 101 must name Upgrade"),
        ({"Connection": "close"}, "the Connection header of the 101 must name Upgrade"),
        ({"Connection": "upgraded"}, "the Connection header of the 101 must name Upgrade"),
        ({"Sec-WebSocket-Accept": None}, "Sec-WebSocket-Accept does not match the key"),
        ({"Sec-WebSocket-Accept": KEY_ACCEPTED}, "Sec-WebSocket-Accept does not match the key"),
        ({"Sec-WebSocket-Accept": ""}, "Sec-WebSocket-Accept does not match the key"),
        (
            {"Sec-WebSocket-Extensions": "permessage-deflate"},
            "the server chose an extension that was not offered",
        ),
        ({"Sec-WebSocket-Protocol": "chat"}, "the server chose a subprotocol that was not offered"),
        ({"Sec-WebSocket-Protocol": ""}, "the server chose a subprotocol that was not offered"),
    ],
)
def test_bad_answers(changes, reason):
    handshake = ClientHandshake("a", "/")
    with pytest.raises(HandshakeBroken) as broken:
        handshake.receive(response(handshake, changes=changes))
    assert str(broken.value) == reason


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/2.0", b"RTSP/1.0", b"ICE/1.0"])
def test_a_refusal_of_another_protocol_is_none(version):
    handshake = ClientHandshake("a", "/")
    with pytest.raises(HandshakeBroken, match=r"must be of HTTP/1\.1|is not HTTP"):
        handshake.receive(version + b" 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/2.0"])
def test_only_http_1_1_upgrades(version):
    handshake = ClientHandshake("a", "/")
    with pytest.raises(HandshakeBroken, match=r"must be HTTP/1\.1"):
        handshake.receive(response(handshake).replace(b"HTTP/1.1", version, 1))


def test_a_repeated_accept_is_no_answer():
    handshake = ClientHandshake("a", "/")
    good = response(handshake)
    line = next(line for line in good.split(b"\r\n") if line.lower().startswith(b"sec-websocket-a"))
    with pytest.raises(HandshakeBroken, match="does not match the key"):
        handshake.receive(good.replace(line, line + b"\r\n" + line))


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("offered", "chosen", "fine"),
    [
        (["a", "b"], "a", True),
        (["a", "b"], "b", True),
        (["a", "b"], "c", False),
        (["a", "b"], "a, b", False),
        (["a"], "A", False),
        (["a"], "", False),
        ([], "a", False),
    ],
)
def test_the_subprotocol_must_be_one_that_was_offered(offered, chosen, fine):
    handshake = ClientHandshake("a", "/", subprotocols=offered)
    answer = response(handshake, changes={"Sec-WebSocket-Protocol": chosen})
    if fine:
        assert handshake.receive(answer).subprotocol == chosen
    else:
        with pytest.raises(HandshakeBroken, match="server chose a subprotocol"):
            handshake.receive(answer)


def test_no_subprotocol_may_be_chosen():
    handshake = ClientHandshake("a", "/", subprotocols=["a"])
    assert handshake.receive(response(handshake)).subprotocol is None


@pytest.mark.parametrize("trailing", [b"", b"\x81", b"\x81\x02hi", b"\x00" * 70_000])
def test_bytes_behind_the_head_are_kept(trailing):
    handshake = ClientHandshake("a", "/")
    assert handshake.receive(response(handshake) + trailing).trailing == trailing


def test_split_at_every_point():
    """However a 101 is cut, the same comes out, and no byte behind it is lost."""
    trailing = b"\x81\x02hi"
    length = len(response(ClientHandshake("a", "/")))
    for cut in range(length + len(trailing) + 1):
        handshake = ClientHandshake("a", "/")
        answer = response(handshake)
        first, second = (answer + trailing)[:cut], (answer + trailing)[cut:]
        accepted = handshake.receive(first) if first else None
        if cut < length:
            assert accepted is None
            accepted = handshake.receive(second)
            assert accepted.trailing == trailing
        else:
            assert accepted.trailing == first[length:]


def test_byte_by_byte():
    handshake = ClientHandshake("a", "/")
    answer = response(handshake)
    results = [handshake.receive(bytes([byte])) for byte in answer]
    assert results[:-1] == [None] * (len(answer) - 1)
    assert isinstance(results[-1], Accepted)


def test_interim_responses_have_an_end():
    handshake = ClientHandshake("a", "/")
    assert handshake.receive(b"HTTP/1.1 100 Continue\r\n\r\n" * 15) is None
    with pytest.raises(HandshakeBroken, match="16 interim responses"):
        handshake.receive(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100_000)


def test_what_is_not_http_is_not_quoted():
    handshake = ClientHandshake("a", "/")
    with pytest.raises(HandshakeBroken) as broken:
        handshake.receive(b"secret of the container\r\n\r\n")
    assert "secret" not in str(broken.value)


def test_other_informational_responses_are_passed_over():
    handshake = ClientHandshake("a", "/")
    early = refusal("103 Early Hints", "Link: </a>") + refusal("100 Continue")
    assert handshake.receive(early) is None
    assert isinstance(handshake.receive(early + response(handshake)), Accepted)


# Refusals.


def refused(data, *, ended=False):
    handshake = ClientHandshake("a", "/")
    if ended:
        assert handshake.receive(data) is None
        data = b""
    with pytest.raises(HandshakeRefused) as error:
        handshake.receive(data)
    return error.value


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("head", "ended"),
    [
        (("403 Forbidden", "Content-Length: 5"), False),
        (("500 Oops", "Content-Length: 5"), False),
        (("200 OK", "Content-Length: 5"), False),
        (("302 Found", "Location: http://elsewhere/", "Content-Length: 5"), False),
        (("404 Not Found",), True),
        (("404 Not Found", "Connection: close"), True),
        (("403 Forbidden", "Content-Length: 500"), True),  # the rest never comes
    ],
)
def test_a_refusal_has_the_real_status_and_body(head, ended):
    error = refused(refusal(*head, body=b"sorry"), ended=ended)
    assert error.status == int(head[0][:3])
    assert error.body == b"sorry"
    assert str(error) == f"the server answered the upgrade with status {error.status}"
    assert all(name == name.lower() for name in error.headers)


def test_a_chunked_refusal():
    body = b"3\r\nsor\r\n2\r\nry\r\n0\r\n\r\n"
    error = refused(refusal("503 No", "Transfer-Encoding: chunked", body=body))
    assert (error.status, error.body) == (503, b"sorry")


def test_a_refusal_whose_body_is_broken_still_has_its_status():
    error = refused(refusal("503 No", "Transfer-Encoding: chunked", body=b"3\r\nsorZZ"))
    assert (error.status, error.body) == (503, b"sor")


def test_a_refusal_without_a_body():
    error = refused(refusal("401 Unauthorized", "Content-Length: 0", "WWW-Authenticate: Basic"))
    assert (error.status, error.body) == (401, b"")
    assert error.headers == {"content-length": "0", "www-authenticate": "Basic"}


def test_repeated_headers_are_joined():
    error = refused(refusal("403 No", "Content-Length: 0", "Via: a", "Via: b"))
    assert error.headers["via"] == "a, b"


@pytest.mark.clause("4-6")
@pytest.mark.parametrize("size", [2047, 2048, 2049, 1_000_000])
def test_a_refusals_body_is_capped(size):
    """And no more than the cap is waited for."""
    whole = size <= 2048
    error = refused(refusal("500 No", f"Content-Length: {size}", body=b"x" * min(size, 2048)))
    assert error.body == b"x" * min(size, 2048)
    assert whole or len(error.body) == 2048


@pytest.mark.clause("4-6")
def test_a_refusals_body_that_never_ends():
    head = refusal("500 No", "Transfer-Encoding: chunked")
    handshake = ClientHandshake("a", "/")
    assert handshake.receive(head) is None
    for _ in range(2047):
        assert handshake.receive(b"1\r\nx\r\n") is None
    with pytest.raises(HandshakeRefused) as error:
        handshake.receive(b"1\r\nx\r\n")
    assert error.value.body == b"x" * 2048


def test_a_refusal_split_at_every_point():
    data = refusal("403 Forbidden", "Content-Length: 5", body=b"sorry")
    for cut in range(1, len(data)):
        handshake = ClientHandshake("a", "/")
        assert handshake.receive(data[:cut]) is None
        with pytest.raises(HandshakeRefused) as error:
            handshake.receive(data[cut:])
        assert (error.value.status, error.value.body) == (403, b"sorry")


# What is no answer at all.


@pytest.mark.clause("4-6")
def test_an_end_before_the_answer():
    for begun in (b"", b"HTTP/1.1 101 Switching", b"HTTP/1.1 100 Continue\r\n\r\n"):
        handshake = ClientHandshake("a", "/")
        if begun:
            assert handshake.receive(begun) is None
        with pytest.raises(HandshakeBroken) as broken:
            handshake.receive(b"")
        assert str(broken.value) == "the connection ended before the upgrade was answered"


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 ABC No\r\n\r\n",
        b"HTTP/1.1 1010 No\r\n\r\n",
        b"HTTP/1.1 101 Yes\r\nbad header\r\n\r\n",
        b"HTTP/1.1 101 Yes\r\nA\x00: b\r\n\r\n",
        b"HTTP/1.1 200 Yes\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 Yes\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_http(data):
    with pytest.raises(HandshakeBroken, match="the answer to the upgrade is not HTTP"):
        ClientHandshake("a", "/").receive(data)


@pytest.mark.parametrize("alert", [b"\x15\x03\x03\x00\x02\x02\x46", b"\x15"])
def test_a_server_of_tls_is_told_apart(alert):
    with pytest.raises(HandshakeBroken, match="speaks TLS on this port: the URL must begin with"):
        ClientHandshake("a", "/").receive(alert)


def test_a_head_is_bounded():
    """One that does not end is given up once it is over its limit."""
    handshake = ClientHandshake("a", "/")
    assert handshake.receive(b"HTTP/1.1 101 Switching Protocols\r\n") is None
    line = b"X-A: " + b"x" * 121 + b"\r\n"
    for _ in range(HANDSHAKE_HEAD_BYTES // len(line) - 1):
        assert handshake.receive(line) is None
    with pytest.raises(HandshakeBroken, match="not HTTP"):
        handshake.receive(line * 2)


@given(st.binary(min_size=1), st.binary(min_size=1))
def test_any_bytes(first, second):
    handshake = ClientHandshake("a", "/")
    try:
        if handshake.receive(first) is None:
            handshake.receive(second)
            handshake.receive(b"")
    except (HandshakeBroken, HandshakeRefused):
        pass


@given(st.data())
def test_one_changed_byte(data):
    """Never anything but the three outcomes, and never accepted without the key's answer."""
    handshake = ClientHandshake("a", "/")
    answer = bytearray(response(handshake))
    at = data.draw(st.integers(0, len(answer) - 1))
    answer[at] = data.draw(st.integers(0, 255))
    try:
        accepted = handshake.receive(bytes(answer)) or handshake.receive(b"")
    except (HandshakeBroken, HandshakeRefused):
        return
    key = parsed(handshake).headers["Sec-WebSocket-Key"]
    assert accepted.headers["sec-websocket-accept"] == accept_key(key)


def test_what_another_implementation_refuses_with():
    rejection = Response(
        403, "Forbidden", Headers({"Content-Length": "2", "Connection": "close"}), b"no"
    )
    error = refused(rejection.serialize())
    assert (error.status, error.body) == (403, b"no")
