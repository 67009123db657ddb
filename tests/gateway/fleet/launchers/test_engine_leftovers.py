"""partway.gateway.fleet.launchers.engine_leftovers: which order gets which, as values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from partway.gateway.fleet.endpoint import Image, Variant
from partway.gateway.fleet.launchers.engine_answers import ListedContainer
from partway.gateway.fleet.launchers.engine_leftovers import Leftover, Leftovers
from partway.gateway.fleet.launchers.launcher import Order

ORDER = Order("new", "echo", Variant(source=Image("echo:1"), instances=2), 0)


def left(number: int, **otherwise: object) -> Leftover:
    one = Leftover(f"id-{number}", number, f"i-{number}", "echo", "AllTraffic", "same", None, ())
    return replace(one, **otherwise)


def leftovers(*found: Leftover) -> Leftovers:
    made = Leftovers()
    made.become(found)
    return made


def test_a_containers_labels_say_what_it_was():
    labels = {
        "partway.instance": "i-1",
        "partway.endpoint": "echo",
        "partway.variant": "B",
        "partway.made-of": "same",
        "partway.model": "/m",
        "partway.gpus": "GPU-a,GPU-b",
    }
    assert Leftover.of(ListedContainer("id-1", labels, True, 7)) == Leftover(
        "id-1", 7, "i-1", "echo", "B", "same", Path("/m"), ("GPU-a", "GPU-b")
    )
    nothing = Leftover("id-1", 7, "", "", "", "", None, ())
    assert Leftover.of(ListedContainer("id-1", {}, True, 7)) == nothing


def test_the_newest_goes_first_and_no_more_stay_than_there_are_to_be():
    there = leftovers(left(2), left(1), left(3))
    assert there.claim(ORDER, "same") == (left(3), (left(1),))
    assert there.claim(ORDER, "same") == (left(2), ())
    assert there.claim(ORDER, "same") == (None, ())


def test_what_is_something_else_is_nobodys_any_more():
    other, older = left(2, endpoint="other"), left(1, made="another")
    there = leftovers(left(3), older, other)
    assert there.claim(ORDER, "same") == (left(3), (older,))
    assert there.claim(replace(ORDER, endpoint="other"), "same") == (other, ())


def test_where_nobody_can_tell_nothing_is_taken():
    there = leftovers(left(1, made=""), left(2))
    assert there.claim(ORDER, "") == (None, (left(2), left(1, made="")))


def test_what_is_not_wanted_is_given_up():
    other = left(2, endpoint="other", model=Path("/m"))
    there = leftovers(left(1), other)
    assert there.models == {Path("/m")}
    assert there.give_up(
        lambda endpoint, variant: (endpoint, variant) == ("echo", "AllTraffic")
    ) == (other,)
    assert there.models == set()
    assert there.give_up(lambda *_: False) == (left(1),)


def test_containers_of_one_instance_stay_together():
    """Though those of two instances are made of the same, and their orders come in any order."""
    there = leftovers(
        *(left(n, instance=f"i-{n}_{name}") for n in (1, 2) for name in ("pre", "model"))
    )

    def claim(instance: str) -> str:
        found, rest = there.claim(replace(ORDER, instance=instance), "same")
        assert rest == ()
        return found.instance

    assert claim("new_pre") == "i-2_pre"
    assert claim("other_model") == "i-1_model"
    assert claim("new_model") == "i-2_model"
    assert claim("other_pre") == "i-1_pre"


def test_what_is_missing_of_an_instance_is_not_taken_of_another():
    there = leftovers(
        left(2, instance="i-2_pre"),
        *(left(1, instance=f"i-1_{name}") for name in ("pre", "model")),
    )
    for instance, expected in (
        ("new_pre", "i-2_pre"),
        ("other_pre", "i-1_pre"),
        ("new_model", None),
        ("other_model", "i-1_model"),
    ):
        found, _ = there.claim(replace(ORDER, instance=instance), "same")
        assert (found and found.instance) == expected


def test_one_that_is_missing_belongs_to_those_that_are_left():
    """In whichever order both are asked for."""
    there = leftovers(left(1, endpoint="other"), left(2, instance="i-2_pre"))
    for instance, expected in (("new_model", None), ("new_pre", "i-2_pre")):
        found, _ = there.claim(replace(ORDER, instance=instance), "same")
        assert (found and found.instance) == expected
        assert there.bound_to("new") == "i-2"
    there.claim(replace(ORDER, instance="other_model"), "same")
    assert there.bound_to("other") == ""
