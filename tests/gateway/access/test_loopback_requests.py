"""Who may change a gateway that does not ask who they are."""

from __future__ import annotations

import pytest

from partway.gateway.access.loopback_requests import check_nearness
from partway.protocol.errors import AccessDenied

LOCALHOST = ("Host", "localhost:8090")


def refusal(
    *headers: tuple[str, str], peer: str = "127.0.0.1", version: str = "1.1", proxies=()
) -> str:
    """What is said to a request's sender; empty where nothing is."""
    try:
        check_nearness(peer, version, headers, proxies)
    except AccessDenied as error:
        return error.message
    return ""


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8090", "LOCALHOST:1", "127.0.0.1:8090", "[::1]", "[::1]:8090"]
)
@pytest.mark.parametrize("name", ["Host", ":authority"])
def test_this_machine_itself(peer, host, name):
    assert refusal((name, host), ("Accept", "*/*"), peer=peer) == ""


@pytest.mark.parametrize(
    "peer", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "fe80::1%lo", "2001:db8::1", "", "unix"]
)
def test_another_machine(peer):
    said = refusal(LOCALHOST, peer=peer)
    assert said == (
        "this request comes from another machine; without authentication only requests from the "
        "gateway's own machine, to 127.0.0.1 or localhost, may change it; to allow others, the "
        "gateway's operator must add --auth sigv4 and --principals"
    )


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example", "",
     "localhost@evil.example", "0.0.0.0:8090", "192.0.2.1", "[::1", "[::]", "::1", "2130706433",
     "127.1"],
)  # fmt: skip
def test_a_page_whose_name_is_made_to_point_here(host):
    assert "Host must be a loopback address" in refusal(("Host", host))
    assert "Host must be a loopback address" in refusal(LOCALHOST, (":authority", host))


def test_a_request_without_a_host_may_be_for_anybody():
    assert "Host must be" in refusal()


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Real-IP", "Via", "X-Forwarded-Proto",
     "X-Forwarded-Port", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP"],
)  # fmt: skip
def test_what_a_proxy_says_it_brings_comes_from_elsewhere(header):
    assert "comes through a proxy" in refusal(LOCALHOST, (header, "127.0.0.1"))


@pytest.mark.parametrize(
    ("version", "refused"), [("0.9", True), ("1.0", True), ("1.1", False), ("2", False)]
)
def test_proxies_that_are_told_nothing_ask_by_an_older_http(version, refused):
    assert ("older than 1.1" in refusal(LOCALHOST, version=version)) is refused


@pytest.mark.parametrize("origin", ["http://localhost:8090", "https://localhost", "null", ""])
def test_no_page_is_let_in_not_even_of_the_gateways_own_origin(origin):
    assert "comes from a web page" in refusal(LOCALHOST, ("origin", origin))


def test_a_proxy_of_this_machine_that_says_nothing():
    assert "comes through a proxy" in refusal(LOCALHOST, proxies={"127.0.0.1"})
    assert refusal(LOCALHOST, peer="::1", proxies={"127.0.0.1"}) == ""
