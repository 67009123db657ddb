"""gateway.apis.control.named_locations: where a request's files may be, in words of its members."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.named_locations import checked_place
from partway.gateway.storage.places.local_roots import LocalRoots

ROOTS = LocalRoots((Path("/srv/data"),))


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3://bucket", ("bucket", "")),
        ("s3://bucket/a/b", ("bucket", "a/b")),
        ("/srv/data/a", None),
        ("/srv/data/a/", None),
        ("file:///srv/data/a", None),
    ],
)
def test_places(location, place):
    assert checked_place("S3Uri", location, ROOTS, "read") == place


@pytest.mark.parametrize(
    ("location", "why"),
    [
        (
            "/etc",
            (
                "The S3Uri '/etc' is a path of the gateway's machine; it must be below one of the "
                "local_roots under [api] in the gateway's settings."
            ),
        ),
        (
            "/srv/data/a/../b",
            (
                "The S3Uri cannot be read: '/srv/data/a/../b' must be an absolute "
                "path, also after file://, with no part of it empty, . or .. and nothing in it "
                "percent-encoded."
            ),
        ),
        (
            "https://bucket/a",
            (
                "The S3Uri 'https://bucket/a' cannot be read; it must be "
                "s3://BUCKET/PREFIX, or elsewhere."
            ),
        ),
        (
            "s3://B/a",
            (
                "The S3Uri cannot be read: s3://B/a: 'B' is not a bucket's name; the address "
                "must be s3://BUCKET/KEY, the bucket's name of 3 to 63 small letters, digits, dots "
                "and hyphens."
            ),
        ),
    ],
)
def test_what_is_refused(location, why):
    with pytest.raises(ValidationException, match=f"^{re.escape(why)}$"):
        checked_place("S3Uri", location, ROOTS, "read", ", or elsewhere")
