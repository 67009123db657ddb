"""Asking for predictions, whatever a client asked in: who waits while a body is read."""

from __future__ import annotations

import threading

import pytest

from partway.gateway.operations.predictions import beside

pytestmark = pytest.mark.usefixtures("anyio_backend")


@pytest.mark.parametrize(("size", "is_here"), [(65_536, True), (65_537, False)])
async def test_a_long_body_is_read_on_a_thread(size, is_here):
    def work(first, *, second):
        return first, second, threading.get_ident()

    first, second, where = await beside(size, work, 1, second=2)
    assert (first, second) == (1, 2)
    assert (where == threading.get_ident()) == is_here
