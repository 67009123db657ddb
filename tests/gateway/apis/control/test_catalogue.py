"""Resources by name, in AWS's words, and bounded."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.control import catalogue as catalogue_module
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.errors import (
    NotWrittenDown,
    ResourceLimitExceeded,
    ValidationException,
)
from partway.gateway.apis.control.limits import MAX_RESOURCE_BYTES
from partway.gateway.apis.control.resources import Resources
from partway.gateway.arns import Arns
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import StoreError
from tests.gateway.streams.fakes import FakeClock

WORDS = [
    ("model", "model", "model/echo"),
    ("endpoint-config", "endpoint configuration", "endpoint-config/echo"),
    ("endpoint", "endpoint", "endpoint/echo"),
]


def catalogue_of(store=None):
    resources = Resources(store or MemoryStore(), FakeClock())
    return Catalogue(resources, Arns("us-east-1", "000000000000"), lambda: 1700000000.12345)


@pytest.mark.parametrize(("kind", "noun", "ending"), WORDS)
async def test_words_of_misses_and_conflicts(kind, noun, ending):
    catalogue = catalogue_of()
    arn = f"arn:aws:sagemaker:us-east-1:000000000000:{ending}"
    missing = f'Could not find {noun} "{arn}".'
    with pytest.raises(ValidationException) as caught:
        catalogue.existing(kind, "Echo")
    assert caught.value.message == missing
    with pytest.raises(ValidationException) as caught:
        await catalogue.delete(kind, "Echo")
    assert caught.value.message == missing
    await catalogue.create(kind, "Echo", {}, {})
    with pytest.raises(ValidationException) as caught:
        await catalogue.create(kind, "eCHO", {}, {})
    assert caught.value.message == f'Cannot create already existing {noun} "{arn}".'


async def test_times_have_milliseconds():
    catalogue = catalogue_of()
    await catalogue.create("model", "a", {}, {})
    assert catalogue.existing("model", "A").created == 1700000000.123


async def test_of_two_at_once_one_is_made():
    catalogue = catalogue_of()
    results = await asyncio.gather(
        catalogue.create("model", "a", {"x": 1}, {}),
        catalogue.create("model", "A", {"x": 2}, {}),
        return_exceptions=True,
    )
    assert [type(each) for each in results] == [type(None), ValidationException]
    assert catalogue.existing("model", "a").members == {"x": 1}


async def test_of_each_kind_there_are_only_so_many(monkeypatch):
    monkeypatch.setattr(catalogue_module, "MAX_RESOURCES", 2)
    catalogue = catalogue_of()
    for name in ("a", "b"):
        await catalogue.create("model", name, {}, {})
    await catalogue.create("endpoint-config", "a", {}, {})
    with pytest.raises(ResourceLimitExceeded, match="The service limit 'Number of models' is 2"):
        await catalogue.create("model", "c", {}, {})
    await catalogue.delete("model", "a")
    await catalogue.create("model", "c", {}, {})


async def test_one_has_only_so_many_bytes():
    with pytest.raises(ValidationException, match=f"must have at most {MAX_RESOURCE_BYTES}"):
        await catalogue_of().create("model", "a", {"x": "y" * MAX_RESOURCE_BYTES}, {})


async def test_what_cannot_be_written_down_is_not_there(monkeypatch):
    store = MemoryStore()
    catalogue = catalogue_of(store)
    await catalogue.create("model", "a", {}, {"k": "v"})

    async def full(*_):
        raise StoreError("No space left on device: /secret/place")

    monkeypatch.setattr(store, "write", full)
    for change in (
        catalogue.create("model", "b", {}, {}),
        catalogue.delete("model", "a"),
        catalogue.tag("model", "a", lambda _: {}),
    ):
        with pytest.raises(NotWrittenDown) as caught:
            await change
        assert "/secret" not in caught.value.message
        assert "No space left on device" in caught.value.for_operator
    assert catalogue.existing("model", "a").tags == {"k": "v"}
    with pytest.raises(ValidationException):
        catalogue.existing("model", "b")
