from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.http.peers import TrustedProxies, network_of, peer_of


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::1", "2001:db8:0:2::/64"),
        ("64:ff9b::192.0.2.1", "192.0.2.1"),
        ("64:ff9b:1::192.0.2.1", "64:ff9b:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("/run/partway.sock", "/run/partway.sock"),
    ],
)
def test_what_counts_as_one_peer(address, peer):
    assert peer_of(address) == peer


def carries_ipv4(address):
    return address.ipv4_mapped is not None or address in ipaddress.IPv6Network("64:ff9b::/96")


@given(st.ip_addresses(v=6), st.ip_addresses(v=6))
def test_ipv6_is_one_peer_by_its_first_half(one, other):
    if not carries_ipv4(one) and not carries_ipv4(other):
        same = int(one) >> 64 == int(other) >> 64
        assert (peer_of(str(one)) == peer_of(str(other))) is same


@given(st.ip_addresses(v=4))
def test_ipv4_is_the_same_peer_in_both_families(address):
    assert peer_of(f"::ffff:{address}") == peer_of(str(address)) == str(address)


@given(st.text())
def test_any_text_is_a_peer(text):
    assert isinstance(peer_of(text), str)


@pytest.mark.parametrize(
    ("networks", "address", "trusted"),
    [
        ((), "192.0.2.1", False),
        (["192.0.2.1"], "192.0.2.1", True),
        (["192.0.2.1"], "192.0.2.2", False),
        (["192.0.2.1"], "::ffff:192.0.2.1", True),
        (["::ffff:192.0.2.0/120"], "192.0.2.9", True),
        (["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.200", True),
        (["2001:db8::/32"], "2001:db8:5::1", True),
        (["2001:db8::1"], "2001:db8::2", False),  # of the same /64, and yet another machine
        (["fe80::/10"], "fe80::1%eth0", True),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["0.0.0.0/0", "::/0"], "", False),
    ],
)
def test_trusted_proxies(networks, address, trusted):
    assert (address in TrustedProxies(networks)) is trusted


@pytest.mark.parametrize("text", ["", "proxy.example", "192.0.2.1/24", "192.0.2", "1.2.3.4/33"])
def test_what_is_no_network(text):
    with pytest.raises(ValueError):
        network_of(text)
    with pytest.raises(ValueError):
        TrustedProxies([text])


def test_a_network_is_its_addresses():
    assert network_of("192.0.2.0/24") == ipaddress.IPv4Network("192.0.2.0/24")
    assert network_of("::1") == ipaddress.IPv6Network("::1/128")
