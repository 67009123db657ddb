from __future__ import annotations

import re
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from partway.gateway.streams.invocation_target import PATH_HEADER, QUERY_HEADER
from partway.gateway.streams.websocket_front import WebSocketFront
from partway.protocol.errors import InputValidationError

#: A request target that names a place in the container and nothing else, in one line of ASCII.
SAFE = re.compile(r"/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*(\?[A-Za-z0-9._~%=&-]+)?")


def target(headers=(), query=""):
    front = object.__new__(WebSocketFront)
    front._exchange = SimpleNamespace(headers=CIMultiDict(headers), query=query)
    return front.target.path_and_query()


nasty = st.text() | st.from_regex(r"[A-Za-z0-9./%=&_\r\n\x00-]{1,20}", fullmatch=True)


@pytest.mark.clause("4-7", "1.6-1")
@given(nasty, nasty, st.booleans())
@example("..", "", True)
@example("a/../b", "a=b\n", False)
@example("a\n", "", False)
def test_a_target_is_safe_or_refused(path, query, in_headers):
    """Whatever a client asks for: no other origin, no way up, no second line."""
    try:
        if in_headers:
            found = target({PATH_HEADER: path, QUERY_HEADER: query})
        else:
            found = target(query=urlencode({"path": path, "query": query}))
    except InputValidationError:
        return
    assert SAFE.fullmatch(found)
    segments = found.partition("?")[0].split("/")
    assert not {".", "..", ""} & set(segments[1:])


@given(st.from_regex(r"[a-z0-9]{1,10}(/[a-z0-9._-]{3,10}){0,3}", fullmatch=True))
def test_a_good_path_is_passed_on_as_it_is(path):
    assert path == "" or ".." in path.split("/") or target({PATH_HEADER: path}) == f"/{path}"
