"""partway.gateway.fleet.routing.router: which instance a stream or request goes to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.limits import MAX_MOVES
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant, Router
from partway.gateway.fleet.routing.session_affinity import StickySession
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.errors import InputValidationError, ServiceUnavailable

POLICY = StreamPolicy()


def variant(name, *ids, weight=1.0, trouble=""):
    instances = tuple(
        RoutedInstance(each, Place("e", Address("h", number), POLICY, name))
        for number, each in enumerate(ids)
    )
    return RoutedVariant(name, weight, instances, trouble)


def router(*variants):
    made = Router(random.Random(3))
    made.update("e", variants)
    return made


@pytest.mark.clause("4-6")
@pytest.mark.parametrize("name", ["c", "E", "b1", "a" * 63, "a--b"])
def test_an_unknown_endpoint_is_the_callers_mistake(name):
    with pytest.raises(InputValidationError) as caught:
        router(variant("A", "a")).check(name)
    assert caught.value.status == 400
    assert caught.value.members["ErrorCode"] == "EndpointNotFound"
    assert repr(name) in caught.value.message


def test_who_has_least_open_has_the_next():
    on = router(variant("A", "a", "b", "c"))
    leases = [on.lease("e") for _ in range(7)]
    assert sorted(Counter(each.instance.id for each in leases).values()) == [2, 2, 3]
    for each in leases:
        if each.instance.id == "b":
            each.__exit__(None, None, None)
    assert {on.lease("e").instance.id for _ in range(2)} == {"b"}


def test_a_place_is_given_back_once():
    on = router(variant("A", "a"))
    with on.lease("e") as lease:
        assert on.load("a").leases == {lease}
    lease.__exit__(None, None, None)
    assert not on.load("a").leases
    assert on.load("a").served == 1


def test_variants_have_their_shares():
    on = router(variant("A", "a", weight=3.0), variant("B", "b", weight=1.0))
    seen = Counter(on.lease("e").variant for _ in range(4000))
    assert seen["A"] == pytest.approx(3000, abs=120)


def test_a_variant_that_is_asked_for_goes_before_weights():
    on = router(variant("A", "a"), variant("B", "b", weight=0.0))
    assert {on.lease("e").variant for _ in range(20)} == {"A"}
    assert on.lease("e", "B").instance.id == "b"
    with pytest.raises(InputValidationError, match="no variant 'C'; it has 'A', 'B'") as caught:
        on.lease("e", "C")
    assert caught.value.members["ErrorCode"] == "VariantNotFound"


def test_a_variant_without_instances_has_no_share():
    on = router(variant("A", trouble="its instances are being started"), variant("B", "b"))
    assert {on.lease("e").variant for _ in range(20)} == {"B"}
    with pytest.raises(ServiceUnavailable, match="variant 'A': its instances are being started"):
        on.lease("e", "A")


def test_where_there_is_nobody_the_reasons_are_told():
    on = router(variant("A", trouble="its instances do not start"), variant("B", "b", weight=0))
    with pytest.raises(ServiceUnavailable) as caught:
        on.lease("e")
    assert caught.value.status == 503
    assert caught.value.message == (
        "no instance of endpoint 'e' is in service: variant 'A': its instances do not start; "
        "variant 'B': its weight is 0"
    )


def test_an_only_one_that_gets_company_is_known_by_what_is_open_on_it():
    on = router(variant("A", "a"))
    on.lease("e")
    kept = on.lease("e")
    on.update("e", (variant("A", "a", "b"),))
    assert [on.lease("e").instance.id for _ in range(2)] == ["b", "b"]
    kept.give_back()
    assert on.lease("e").instance.id == "a"


class TestMoving:
    def test_to_another(self):
        on = router(variant("A", "a", "b"), variant("B", "c"))
        lease = on.lease("e", "A")
        first = lease.instance.id
        failed = []
        on.load(first).on_unreachable = lambda: failed.append(first)
        assert lease.move()
        assert {first, lease.instance.id} == {"a", "b"}
        assert failed == [first]
        assert not on.load(first).leases
        assert on.load(lease.instance.id).leases == {lease}
        assert not lease.move()

    def test_to_each_other_at_most_once_and_to_a_few(self):
        for number, moves in ((3, 2), (9, MAX_MOVES)):
            on = router(variant("A", *"abcdefghi"[:number]))
            lease = on.lease("e")
            tried = [lease.instance.id]
            while lease.move():
                tried.append(lease.instance.id)
            assert len(tried) == len(set(tried)) == moves + 1

    def test_not_where_there_is_no_other(self):
        on = router(variant("A", "a"), variant("B", "c"))
        lease = on.lease("e", "A")
        assert not lease.move()
        assert on.load("a").leases == {lease}

    def test_to_one_that_came_meanwhile(self):
        on = router(variant("A", "a"))
        lease = on.lease("e")
        on.update("e", (variant("A", "b"),))
        assert lease.move()
        assert lease.instance.id == "b"
        assert not on.load("a").leases


class TestCutting:
    def test_what_is_open_is_told_once(self):
        on = router(variant("A", "a"))
        lease, told = on.lease("e"), []
        lease.ends_by(lambda: told.append("end"))
        on.load("a").cut()
        on.load("a").cut()
        assert told == ["end"]

    def test_what_has_not_said_how_is_told_when_it_does(self):
        on = router(variant("A", "a"))
        lease, told = on.lease("e"), []
        on.load("a").cut()
        lease.ends_by(lambda: told.append("end"))
        assert told == ["end"]


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("is_early", [False, True])
def test_work_on_an_instance_out_of_reach_ends_otherwise(is_lost, is_early):
    on, told, cuts = router(variant("x", "a")), [], []
    on.on_cut = lambda *cut: cuts.append(cut)
    with on.lease("e") as stream, on.lease("e") as request:
        if is_early:
            on.load("a").cut(is_lost=is_lost)
        stream.ends_by(lambda: told.append("drained"), lambda: told.append("lost"))
        request.ends_by(lambda: told.append("request"))
        if not is_early:
            on.load("a").cut(is_lost=is_lost)
    assert sorted(told) == ["lost" if is_lost else "drained", "request"]
    assert cuts == [("a", is_lost)]


def begun(on, lease):
    """A session that the lease's instance has begun."""
    return StickySession("s", lease.instance.mark)


class TestSessions:
    def test_a_session_goes_to_the_instance_that_has_begun_it(self):
        on = router(variant("A", *"abcdefgh"))
        for _ in range(20):
            lease = on.lease("e")
            assert on.lease("e", session=begun(on, lease)).instance.id == lease.instance.id

    def test_another_router_finds_the_same_instance(self):
        on, other = (router(variant("A", *"abcdefgh")) for _ in range(2))
        for session in (begun(on, on.lease("e")), StickySession("an-id-of-the-clients")):
            found = {each.lease("e", session=session).instance.id for each in (on, other)}
            assert len(found) == 1

    def test_an_id_of_the_clients_goes_to_one_instance(self):
        on = router(variant("A", *"abcd"), variant("B", *"efgh"))
        homes = {}
        for number in [*range(50)] * 3:
            lease = on.lease("e", session=StickySession(str(number)))
            assert homes.setdefault(number, lease.instance.id) == lease.instance.id
        assert set(homes.values()) == set("abcdefgh")

    def test_ids_of_the_clients_follow_the_weights(self):
        on = router(variant("A", *"ab", weight=1.0), variant("B", *"cd", weight=3.0))
        homes = [on.lease("e", session=StickySession(str(n))).variant for n in range(400)]
        assert homes.count("B") == pytest.approx(300, abs=50)

    def test_a_lost_instances_sessions_go_elsewhere(self):
        on = router(variant("A", *"abcd"))
        session = begun(on, on.lease("e"))
        (lost,) = {on.lease("e", session=session).instance.id}
        on.update("e", (variant("A", *set("abcd") - {lost}),))
        homes = {on.lease("e", session=session).instance.id for _ in range(9)}
        assert len(homes) == 1
        assert lost not in homes

    def test_a_variant_goes_before_a_session(self):
        on = router(variant("A", "a", weight=1.0), variant("B", "b", weight=0))
        session = begun(on, on.lease("e", "B"))
        assert on.lease("e", session=session).instance.id == "b"
        assert on.lease("e", "A", session).instance.id == "a"
        assert on.lease("e", "B", StickySession("s")).instance.id == "b"

    def test_the_same_container_in_two_variants(self):
        """Its marks differ, so that no session leaves its variant."""
        on = router(variant("A", "a"), variant("B", "b"))
        for each in "AB":
            session = begun(on, on.lease("e", each))
            assert {on.lease("e", session=session).variant for _ in range(9)} == {each}

    def test_an_attached_containers_mark_outlives_the_gateway(self):
        first, again = (RoutedInstance(each, Place("e", Address("h", 1), POLICY)) for each in "ab")
        assert first.mark == again.mark
        first, again = (
            RoutedInstance(each, Place("e", Address("h", 1), POLICY, has_log=True)) for each in "ab"
        )
        assert first.mark != again.mark


def test_a_table_that_was_taken_stays_as_it_was():
    one, other = variant("A", "a"), variant("B", "b")
    on = router(one)
    before = on.table
    assert before is on.table
    on.update("e", (one,))  # nothing is otherwise
    assert before is on.table
    on.update("f", (other,))
    assert (before, on.table) == ({"e": (one,)}, {"e": (one,), "f": (other,)})
    assert (on.variants("f"), on.variants("g")) == ((other,), ())


def test_another_table_leaves_open_places_where_they_are():
    on = router(variant("A", "a", "b"))
    lease = on.lease("e")
    on.update("e", (variant("A", "a", "b", "c"),))
    assert {on.lease("e").instance.id for _ in range(2)} == {"a", "b", "c"} - {lease.instance.id}
    on.update("e", None)
    lease.__exit__(None, None, None)
    with pytest.raises(InputValidationError):
        on.lease("e")
