"""The Date of a response."""

from __future__ import annotations

import pytest

from partway.protocol.http_date import http_date


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (0.9, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (1.0, "Thu, 01 Jan 1970 00:00:01 GMT"),
        (784111777.5, "Sun, 06 Nov 1994 08:49:37 GMT"),  # RFC 9110's own
        (784111799.9, "Sun, 06 Nov 1994 08:49:59 GMT"),
        (784111800.0, "Sun, 06 Nov 1994 08:50:00 GMT"),
    ],
)
def test_a_date(now, text):
    assert http_date(now) == text
