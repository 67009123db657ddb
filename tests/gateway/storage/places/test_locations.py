"""storage.places.locations: locations as texts."""

from __future__ import annotations

import pytest

from partway.gateway.storage.places.locations import checked_arn, is_local, plain_path, split_url
from partway.gateway.storage.places.place import StorageFailed


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/srv/models", True),
        ("file:///srv/models", True),
        ("file:relative", True),
        ("s3://bucket/key", False),
        ("https://host/file", False),
        ("models/chat", False),
    ],
)
def test_what_is_meant_to_be_on_this_machine(location, expected):
    assert is_local(location) is expected


def test_a_path_is_written_in_one_way():
    """Leave is asked for what is written: no other spelling may lead to the same file."""
    assert plain_path("/srv/a") == plain_path("file://localhost/srv/a") == "/srv/a"
    assert plain_path("/srv/a%2e") == "/srv/a%2e"  # in a path it is itself
    for location in (
        *("/srv/a/../b", "/srv/./b", "//srv/b", "/srv/b/", "srv/b", "s3://srv/b"),
        *("file:///srv/a/%2e%2e/b", "file:///srv/%62", "file:///srv/a/.\t./b"),
    ):
        with pytest.raises(ValueError, match=r"nothing in it percent-encoded"):
            plain_path(location)


def test_an_address_is_a_bucket_and_a_key():
    assert split_url("s3://bucket/models/a.tar.gz") == ("bucket", "models/a.tar.gz")
    assert split_url("s3://my.own-bucket/models/") == ("my.own-bucket", "models/")
    assert split_url("s3://bucket") == ("bucket", "")


@pytest.mark.parametrize("url", ["s3://", "s3:///a", "s3://B/a", "s3://-a-/a", "s3://ab/a"])
def test_an_address_without_a_bucket(url):
    with pytest.raises(StorageFailed, match="not a bucket's name; the address must be s3://"):
        split_url(url)


def test_what_leave_is_asked_for():
    assert checked_arn("s3://bucket/a/b") == "arn:aws:s3:::bucket/a/b"
    assert checked_arn("/srv/a") == checked_arn("file:///srv/a") == "arn:partway:files:::/srv/a"
    for location in ("/srv/a/../b", "file:///srv/a/%2e%2e/b"):
        with pytest.raises(ValueError, match="no part of it empty"):
            checked_arn(location)
