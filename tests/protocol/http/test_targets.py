"""Which bytes a part of a target may have as it is sent."""

from __future__ import annotations

import string

import pytest

from partway.protocol.http.targets import QUERY, SEGMENT

#: RFC 3986 §2.2, §2.3 and §3.3, spelled out.
PLAIN = string.ascii_letters + string.digits + "-._~" + "!$&'()*+,;=" + ":@"


@pytest.mark.parametrize(("part", "more"), [(SEGMENT, ""), (QUERY, "/?")])
def test_each_character_is_as_the_rfc_says(part, more) -> None:
    for code in range(256):
        assert (part.fullmatch(f"a{chr(code)}") is not None) == (chr(code) in PLAIN + more)
    assert part.fullmatch("%00%fF")
    for broken in ("%", "%4", "%4g", "%%41"):
        assert part.fullmatch(broken) is None
    assert (part.fullmatch("") is None) is (part is SEGMENT)
