from __future__ import annotations

import pytest

from partway.gateway.access import replay_protection as used_signatures
from partway.gateway.access.replay_protection import UsedSignatures
from partway.protocol.errors import InvalidSignature, ServiceUnavailable


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def test_each_is_good_once():
    used = UsedSignatures()
    used.use("a", 100, now=0)
    used.use("b", 100, now=0)
    with pytest.raises(InvalidSignature):
        used.use("a", 100, now=99)


def test_what_is_not_good_any_more_is_forgotten():
    used = UsedSignatures()
    for number in range(100):
        used.use(str(number), number + 10, now=number)
    assert len(used) == 11


def test_there_is_a_bound_and_it_fails_closed(monkeypatch):
    monkeypatch.setattr(used_signatures, "MAX_USED_SIGNATURES", 3)
    used = UsedSignatures()
    for name in "abc":
        used.use(name, 100, now=0)
    with pytest.raises(ServiceUnavailable, match="3 requests with once in their query"):
        used.use("d", 100, now=0)
    with pytest.raises(InvalidSignature):
        used.use("a", 100, now=0)
    used.use("d", 300, now=101)
