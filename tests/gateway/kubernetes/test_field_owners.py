"""Who has set which fields, held to a model that knows one field at a time."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.kubernetes.errors import InvalidObject
from partway.gateway.kubernetes.field_owners import (
    APPLY,
    UPDATE,
    FieldManager,
    applied,
    body_of,
    conflicts,
    fields_of,
    managers_of,
    shown_managers,
    updated,
)


def who(name, *paths, operation=APPLY):
    fields = frozenset(tuple(each.split(".")) for each in paths)
    return FieldManager(name, operation, "g/v1", "", fields)


def fields(**values):
    return {("spec", name): value for name, value in values.items()}


def owned(managers):
    return {(each.name, each.operation): set(map(".".join, each.fields)) for each in managers}


def test_managed_fields_are_read_as_they_are_written():
    managers = [who("a", "spec.x", "metadata.labels.app"), who("b", "spec.y", operation=UPDATE)]
    shown = shown_managers(managers)
    assert shown[0] == {
        "apiVersion": "g/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:x": {}}},
        "manager": "a",
        "operation": "Apply",
        "time": "",
    }
    assert managers_of(shown) == managers
    dotted = {**shown[0], "fieldsV1": {"f:spec": {".": {}, "f:x": {".": {}}}}}
    assert managers_of([dotted])[0].fields == {("spec", "x")}
    for wrong in ({}, {**shown[0], "fieldsV1": {"f:spec": 3}}, {**shown[0], "fieldsV1": []}):
        with pytest.raises(InvalidObject):
            managers_of([wrong])


def test_fields_are_those_that_managers_set():
    body = {
        "apiVersion": "g/v1",
        "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {}},
        "spec": {"list": [{"x": 1}], "empty": {}, "deep": {"er": 1}},
        "status": {"s": 1},
    }
    found = fields_of(body)
    assert found == {
        ("metadata", "labels", "a"): "b",
        ("spec", "list"): [{"x": 1}],
        ("spec", "empty"): {},
        ("spec", "deep", "er"): 1,
    }
    assert body_of(found) == {"metadata": {"labels": {"a": "b"}}, "spec": body["spec"]}


def test_what_is_left_out_goes_unless_another_has_it():
    managers = [who("one", "spec.x", "spec.y"), who("two", "spec.y")]
    live = fields(x=1, y=2, z=3)
    now, then = applied(managers, live, fields(), who("one"))
    assert now == fields(y=2, z=3)
    assert owned(shown_then(then)) == {("two", APPLY): {"spec.y"}}


def shown_then(managers):
    return managers_of(shown_managers(managers))


def test_an_object_takes_the_place_of_a_value_and_a_value_of_an_object():
    live = {("spec", "a"): 1, ("spec", "b", "c"): 2}
    asked = {("spec", "a", "x"): 1, ("spec", "b"): 3}
    managers = [who("one", "spec.a", "spec.b.c")]
    now, then = applied(managers, live, asked, who("two"))
    assert now == asked
    assert owned(then) == {("one", APPLY): set(), ("two", APPLY): {"spec.a.x", "spec.b"}}


def test_who_updates_has_what_they_change():
    managers = [who("one", "spec.x", "spec.y", "spec.z")]
    then = updated(managers, fields(x=1, y=2, z=3), fields(x=1, y=5), who("two"))
    assert owned(then) == {("one", APPLY): {"spec.x"}, ("two", UPDATE): {"spec.y"}}
    assert updated(managers, fields(x=1), fields(x=1), who("two")) == managers


NAMES = st.sampled_from("abc")
VALUES = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_forced_applications_are_those_of_a_model(steps):
    live, managers = {}, []
    model_values, model_owners = {}, {}
    for name, values in steps:
        live, managers = applied(managers, live, fields(**values), who(name))
        for field in [each for each, owners in model_owners.items() if name in owners]:
            model_owners[field].discard(name)
            if field not in values and not model_owners[field]:
                del model_values[field], model_owners[field]
        for field, value in values.items():
            if model_values.get(field) != value:
                model_owners[field] = set()
            model_values[field] = value
            model_owners[field].add(name)
        assert live == fields(**model_values)
        found = {}
        for each in managers:
            for path in each.fields:
                found.setdefault(path[1], set()).add(each.name)
        assert found == model_owners


@given(VALUES, VALUES, st.sets(st.sampled_from("xyz")))
def test_only_what_is_anothers_and_different_conflicts(live, asked, theirs):
    other = dataclasses.replace(who("other"), fields=frozenset(("spec", each) for each in theirs))
    mine = who("me", "spec.x", "spec.y", "spec.z")
    found = conflicts([other, mine], fields(**live), fields(**asked), "me")
    expected = {each for each in asked if each in live and live[each] != asked[each]} & theirs
    assert {path[1] for path, _ in found} == expected
