from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.gateway.access.origins import check_origin
from partway.protocol.errors import AccessDenied
from tests.wire.origins import ORIGINS


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def passes(headers, allowed=(), *, encrypted=False):
    try:
        check_origin(CIMultiDict(headers), frozenset(allowed), encrypted=encrypted)
    except AccessDenied:
        return False
    return True


@pytest.mark.clause("3-4")
@pytest.mark.parametrize(("host", "origin", "allowed", "expected"), ORIGINS.values(), ids=ORIGINS)
def test_origins(host, origin, allowed, expected):
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    assert passes(headers, allowed) is expected


@pytest.mark.parametrize("host", ["localhost", "localhost:8443", "127.0.0.1:8443", "[::1]"])
@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss", "ftp", "chrome-extension", ""])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_page_of_ours_has_the_scheme_of_the_port(host, scheme, encrypted):
    headers = {"Host": host, "Origin": f"{scheme}://{host}"}
    assert passes(headers, encrypted=encrypted) is (scheme == ("https" if encrypted else "http"))


@pytest.mark.parametrize(
    "host",
    [
        "127.1:8090",  # what browsers take for 127.0.0.1, and nobody else does
        "2130706433:8090",
        "0x7f.1:8090",
        "127.0.0.1.:8090",
        "localhost.:8090",
        "[::1%25eth0]:8090",
        "foo.localhost:8090",
        "xn--lcalhost-54a:8090",
    ],
)
def test_a_host_that_is_not_plainly_an_address_or_localhost_is_not_ours(host):
    assert not passes({"Host": host, "Origin": f"http://{host}"}) or host.startswith("[")


@given(st.text(), st.text())
def test_no_origin_of_another_host_passes(origin, host):
    if passes({"Host": host, "Origin": origin}):
        assert origin.lower().partition("://")[2].partition("/")[0].startswith(host.lower())


def test_the_refusal_names_no_origin():
    """It is a client's text, and goes into the log."""
    with pytest.raises(AccessDenied) as refused:
        check_origin(
            CIMultiDict({"Host": "a", "Origin": "https://canary.example"}),
            frozenset(),
            encrypted=False,
        )
    assert "canary" not in refused.value.message
    assert "--allow-origin" in refused.value.message
