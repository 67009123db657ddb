"""partway.gateway.fleet.endpoint: names and addresses."""

from __future__ import annotations

import dataclasses

import pytest

from partway.gateway.fleet.endpoint import (
    Endpoint,
    check_name,
    container_address,
    is_tls,
    places,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.tls.trust import Trust
from partway.protocol.errors import InputValidationError

A = Endpoint.attached("a", Address("h", 1), StreamPolicy())


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    "name",
    ["", "-a", "a-", "a" * 64, "a b", "a/b", "a.b", "a_b", "ä", "a\n", "٣", "../a", "a%20", "\0"],
)
def test_what_can_be_no_name_is_refused_as_such(name):
    with pytest.raises(InputValidationError, match="up to 63 letters") as caught:
        check_name(name)
    assert caught.value.members["ErrorCode"] == "InvalidEndpointName"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:9000", Address("127.0.0.1", 9000)),
        ("http://127.0.0.1:9000/", Address("127.0.0.1", 9000)),
        ("http://model.internal", Address("model.internal", 8080)),
        ("http://[::1]:9000", Address("::1", 9000)),
        ("ws://model:80", Address("model", 80)),
        ("HTTP://MODEL:80", Address("model", 80)),
    ],
)
def test_a_containers_url(url, address):
    assert container_address(url) == container_address(url, tls=True) == address
    assert not is_tls(url)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://model", Address("model", 443)),
        ("https://model:8443/", Address("model", 8443)),
        ("wss://[::1]", Address("::1", 443)),
    ],
)
def test_the_url_of_a_container_behind_tls(url, address):
    assert container_address(url, tls=True) == address
    assert is_tls(url)
    with pytest.raises(ValueError, match=r"it must begin with http://$"):
        container_address(url)


def test_where_a_container_is():
    (place,) = places(A)
    assert place.url == "http://h:1"
    assert dataclasses.replace(place, tls=Trust()).url == "https://h:1"


def test_what_begins_otherwise_is_told_of_both():
    with pytest.raises(ValueError, match=r"it must begin with http:// or https://$"):
        container_address("model:8080", tls=True)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("model:8080", "it must begin with http://"),
        ("https://model", "it must begin with http://"),
        ("unix:///run/model", "it must begin with http://"),
        ("", "it must begin with http://"),
        ("http://", "names no host"),
        ("http://:8080", "names no host"),
        ("http:/model", "names no host"),
        ("http://model/path", "more than host and port"),
        ("http://model/?q=1", "more than host and port"),
        ("http://model#x", "more than host and port"),
        ("http://user@model", "more than host and port"),
        ("http://user:secret@model", "more than host and port"),
        ("http://model:port", "Port could not be cast"),
        ("http://model:65536", "Port out of range"),
        ("http://[::1", "Invalid IPv6 URL"),
    ],
)
def test_what_is_no_containers_url_says_why(url, what):
    with pytest.raises(ValueError) as caught:
        container_address(url)
    assert what in str(caught.value)
