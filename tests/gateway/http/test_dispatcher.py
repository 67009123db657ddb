from __future__ import annotations

import asyncio
import json
import logging
import re
import time

import pytest

from partway.gateway.access.authentication import (
    ANYBODY,
    Access,
    Authenticator,
    Identity,
    NoAuthentication,
)
from partway.gateway.apis.prediction.errors import grpc_status
from partway.gateway.arns import Arns
from partway.gateway.http.body_quota import HeldBytes
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.error_dialects import ErrorResponse
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import Leave, Route
from partway.gateway.quota import Quota, QuotaLimits
from partway.protocol.errors import (
    AccessDenied,
    ClientLeft,
    ContainerError,
    RequestTooLarge,
    UnsupportedMediaType,
)
from tests.gateway.http.test_exchange import Recorded

SOMEBODY = Identity("somebody")
ARNS = Arns("us-east-1", "000000000000")


class Noting(Authenticator):
    """Notes what it is asked, and what a signature covers; lets everybody pass, or nobody."""

    def __init__(self, steps, error, identity, reads_for=""):
        self.reads_for = reads_for
        self.steps = steps
        self.error = error
        self.identity = identity

    async def authenticate(self, asked, access):
        action, resource, service = asked.deed
        assert service == "sagemaker"
        self.steps.append(("who", asked.request.path, action, resource, access))
        if self.error is not None:
            raise self.error
        if self.reads_for:
            assert asked.hash_beforehand() is None
            assert asked.hash_at_hand(self.reads_for) is None
            await asked.hash()
        return self.identity

    def may(self, name, action, resource):
        raise NotImplementedError


async def nothing(*_):
    raise NotImplementedError


def a_route(name, operation=nothing, **members):
    """A route whose path names an endpoint."""
    path = re.compile("/at/(?P<endpoint>.*)")
    return Route(name, frozenset({"POST"}), path, operation, **members)


class Steps:
    """A dispatcher with one route, and the steps that it takes.

    Args:
        operate: what its operation does besides being noted.
        error: what authentication raises.
        asks: actions and resources that its operation asks leave for.
        identity: who asks.
        proxies: addresses of proxies.
        gathered: the budget of bodies that are held.
        reads_for: the access key that authentication has the body gathered for.
        route: further members of the route.
    """

    def __init__(
        self,
        operate=None,
        error=None,
        allow_origins=(),
        asks=(),
        identity=SOMEBODY,
        proxies=(),
        gathered=None,
        reads_for="",
        **route,
    ):
        self._asks = asks
        self.taken = []
        self.refused = []
        self._operate = operate
        members = {"payload": GatheredPayload(4), **route}
        route = a_route("Ask", self._run, **members)
        self.dispatch = Dispatcher(
            (route,),
            Noting(self.taken, error, identity, reads_for),
            ARNS,
            frozenset(allow_origins),
            self.refused.append,
            proxies,
            gathered,
        )

    async def _run(self, exchange, identity, named):
        self.taken.append(("run", identity, dict(named), len(exchange._chunks)))
        for each in self._asks:
            identity.check(*each)
        if self._operate is not None:
            await self._operate(exchange)

    async def ask(self, *headers, path="/at/an%2Dendpoint", **exchange):
        exchange = Recorded(*headers, method="POST", path=path, **exchange)
        await self.dispatch(exchange)
        return exchange


async def test_who_asks_then_the_payload_then_the_operation():
    steps = Steps()
    await steps.ask(chunks=[b"body"])
    assert steps.taken == [
        (
            "who",
            "/at/an%2Dendpoint",
            "sagemaker:Ask",
            ARNS.of("endpoint", "an-endpoint"),
            Access.SIGNED,
        ),
        ("run", SOMEBODY, {"endpoint": "an-endpoint"}, 0),
    ]


async def test_leave_is_asked_for_no_more_of_a_name_than_an_endpoint_can_have():
    steps = Steps()
    await steps.ask(path="/at/" + "x" * 5000)
    assert steps.taken[0][3] == ARNS.of("endpoint", "x" * 64)


async def test_leave_that_the_operation_asks_for_is_asked_for_nowhere_else():
    steps = Steps(leave=Leave.OF_OPERATION, asks=[("sagemaker:CreateModel", "*")])
    exchange = await steps.ask()
    assert steps.taken[0] == ("who", "/at/an%2Dendpoint", "", "", Access.SIGNED)
    assert exchange.responses == []


async def test_an_operation_that_does_its_work_without_leave_has_failed(caplog):
    exchange = await Steps(leave=Leave.OF_OPERATION).ask()
    assert exchange.responses[0][0] == 500
    assert "Ask must check its sender's permission" in caplog.text


async def test_where_anyone_may_ask_nobody_is_asked():
    steps = Steps(access=Access.ANYONE)
    await steps.ask(("Origin", "https://evil.example"))
    assert [step[:2] for step in steps.taken] == [("run", ANYBODY)]


@pytest.mark.clause("3-5")
@pytest.mark.parametrize("access", [each for each in Access if each is not Access.ANYONE])
async def test_a_route_says_how_its_sender_proves_itself(access):
    steps = Steps(access=access)
    await steps.ask()
    assert steps.taken[0][-1] is access


async def test_who_may_not_ask_has_its_body_left_unread():
    steps = Steps(error=AccessDenied("not you"))
    exchange = await steps.ask(chunks=[b"body"])
    assert [step[0] for step in steps.taken] == ["who"]
    assert len(exchange._chunks) == 1
    assert exchange.responses[0][0] == 403
    assert steps.refused == ["AccessDeniedException"]


@pytest.mark.clause("3-4")
async def test_a_page_of_elsewhere_may_not_ask():
    origin = ("Origin", "https://page.example")
    steps = Steps()
    exchange = await steps.ask(origin)
    assert [step[0] for step in steps.taken] == ["who"]
    assert exchange.responses[0][0] == 403
    allowing = Steps(allow_origins=["https://page.example"])
    await allowing.ask(origin)
    assert [step[0] for step in allowing.taken] == ["who", "run"]


async def test_a_payload_against_its_rule_reaches_no_operation():
    steps = Steps()
    exchange = await steps.ask(chunks=[b"bodies"])
    assert [step[0] for step in steps.taken] == ["who"]
    assert exchange.responses[0][0] == 413
    assert steps.refused == [RequestTooLarge.name]


BUDGET_PROXY = "203.0.113.9"


@pytest.mark.parametrize(
    ("peer", "chunks", "status"),
    [("2001:db8::2", [b"ab", None], 503), ("2001:db8:1::2", [b"ab"], None)],
)
async def test_bodies_that_are_held_are_drawn_from_one_budget_by_peers(peer, chunks, status):
    budget = Quota(QuotaLimits(10, 5))
    steps = Steps(gathered=budget)
    HeldBytes(budget, ("address 2001:db8::/64",)).draw(4)
    exchange = await steps.ask(chunks=chunks, peer=peer)
    assert [each[0] for each in exchange.responses] == ([status] if status else [])
    assert budget.used == 4


async def test_a_proxy_has_no_share_of_the_budget():
    budget = Quota(QuotaLimits(10, 1))
    steps = Steps(gathered=budget, proxies={BUDGET_PROXY})
    await steps.ask(chunks=[b"body"], peer=BUDGET_PROXY)
    assert steps.taken[-1][0] == "run"


async def test_a_body_counts_until_its_operation_is_over():
    budget = Quota(QuotaLimits(10, 5))
    held = []

    async def operate(exchange):
        held.append((budget.used, await exchange.body(4)))
        raise ClientLeft

    await Steps(operate, gathered=budget).ask(chunks=[b"bo", b"dy"])
    assert held == [(4, b"body")]
    assert budget.used == 0


async def test_a_body_is_the_access_keys_too_that_it_is_gathered_for():
    budget = Quota(QuotaLimits(10, 5))
    steps = Steps(gathered=budget, reads_for="AKID")
    HeldBytes(budget, ("access key AKID",)).draw(2)
    exchange = await steps.ask(chunks=[b"body"])
    ((status, body, _),) = exchange.responses
    assert (status, b"of access key AKID hold the 5 bytes" in body) == (503, True)
    assert budget.used == 2


async def test_what_lies_nowhere_asks_nobody():
    steps = Steps(errors=lambda error: ErrorResponse(599, {}, b""))
    exchange = await steps.ask(path="/nowhere")
    assert steps.taken == []
    assert exchange.responses[0][0] == 404


@pytest.mark.parametrize(
    ("error", "status"), [(ContainerError("no"), 424), (ZeroDivisionError("secret"), 500)]
)
async def test_errors_are_told_in_the_routes_dialect(error, status, caplog):
    async def fail(exchange):
        raise error

    def dialect(error):
        return ErrorResponse(error.status, {"x-error": error.name}, b"")

    exchange = await Steps(fail, errors=dialect).ask()
    ((found, body, headers),) = exchange.responses
    assert (found, body, list(headers)) == (status, b"", ["x-error"])
    plain = await Steps(fail).ask()
    assert "secret" not in json.loads(plain.responses[0][1])["Message"]


async def test_what_no_client_of_the_operations_sends_is_refused_as_to_anybody():
    def require(exchange):
        steps.taken.append("required")
        raise UnsupportedMediaType("no")

    steps = Steps(requires=require, errors=lambda _: ErrorResponse(299, {}, b""))
    exchange = await steps.ask()
    assert steps.taken == ["required"]
    assert exchange.responses[0][0] == 415
    assert steps.refused == ["UnsupportedMediaTypeException"]


async def test_the_log_has_grpcs_status_of_a_call(caplog):
    async def fail(exchange):
        raise AccessDenied("no")

    caplog.set_level(logging.INFO)
    await Steps(fail, errors=grpc_status).ask()
    (record,) = caplog.records
    assert (record.msg.fields["status"], record.msg.fields["grpc_status"]) == (200, 7)


async def test_an_error_behind_the_head_breaks_the_response_off(caplog):
    async def fail(exchange):
        await exchange.begin(200)
        raise ContainerError("no")

    exchange = await Steps(fail).ask()
    assert exchange.responses == []
    assert set(exchange.said[1:]) == {"abort"}
    assert caplog.records[0].msg.fields["status"] is None


@pytest.mark.parametrize("error", [ClientLeft(), ConnectionResetError(), asyncio.CancelledError()])
async def test_a_client_that_left_is_answered_nothing(error, caplog):
    async def left(exchange):
        await exchange.begin(200)
        raise error

    steps = Steps(left)
    exchange = Recorded(method="POST", path="/at/x")
    with caplog.at_level(logging.INFO, "partway.gateway"):
        if isinstance(error, asyncio.CancelledError):
            with pytest.raises(asyncio.CancelledError):
                await steps.dispatch(exchange)
        else:
            await steps.dispatch(exchange)
    assert f"client left request_id={exchange.request_id} peer=192.0.2.1" in caplog.text
    assert exchange.responses == []
    assert exchange.said == [200, "abort"]
    assert steps.refused == []


async def test_the_log_has_one_line_of_what_can_be_printed(caplog):
    async def fail(exchange):
        raise ContainerError("a\nb\x1b" + "c" * 1000)

    with caplog.at_level(logging.INFO, "partway.gateway"):
        await Steps(fail).ask()
    (line,) = [record.getMessage() for record in caplog.records]
    assert r'reason="a\nb\u001bc' in line
    assert len(line) < 500


# --- The control plane ---------------------------------------------------------------------------

CONTROL = {"leave": Leave.OF_OPERATION, "control": True, "asks": [("sagemaker:CreateModel", "*")]}
LOCALHOST = ("Host", "localhost:8090")


@pytest.mark.parametrize(
    ("peer", "host", "proxies", "done"),
    [
        ("127.0.0.1", "localhost:8090", (), True),
        ("::1", "[::1]:8090", (), True),
        ("127.0.0.1", "evil.example:8090", (), False),
        ("192.0.2.1", "localhost:8090", (), False),
        ("127.0.0.1", "localhost:8090", {"127.0.0.1"}, False),
    ],
)
async def test_where_nobody_is_asked_it_is_reached_from_this_machine_alone(
    peer, host, proxies, done
):
    steps = Steps(identity=ANYBODY, proxies=proxies, **CONTROL)
    exchange = await steps.ask(("Host", host), peer=peer)
    assert [step[0] for step in steps.taken] == (["who", "run"] if done else ["who"])
    if not done:
        assert exchange.responses[0][0] == 403
        assert "must add --auth sigv4" in json.loads(exchange.responses[0][1])["Message"]


@pytest.mark.clause("3-4")
@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:8090", "https://a"])
async def test_no_page_changes_anything_from_this_machine_either(origin):
    """Not even one that may open streams: the gateway's own origin has containers' answers."""
    steps = Steps(identity=ANYBODY, allow_origins=["https://a"], **CONTROL)
    exchange = await steps.ask(LOCALHOST, ("Origin", origin), peer="127.0.0.1")
    assert [step[0] for step in steps.taken] == ["who"]
    assert exchange.responses[0][0] == 403


async def test_somebody_who_is_known_reaches_it_from_anywhere():
    steps = Steps(**CONTROL)
    await steps.ask(("Host", "gateway.example"), peer="192.0.2.1")
    assert [step[0] for step in steps.taken] == ["who", "run"]


async def test_what_is_not_of_it_is_reached_from_anywhere_all_the_same():
    steps = Steps(identity=ANYBODY)
    await steps.ask(("Host", "gateway.example"), peer="192.0.2.1")
    assert [step[0] for step in steps.taken] == ["who", "run"]


@pytest.mark.parametrize("of", [SOMEBODY, ANYBODY])
async def test_each_change_has_its_line_and_each_that_is_refused_to_somebody_known(caplog, of):
    steps = Steps(identity=of, changes=True, **CONTROL)
    done = await steps.ask(LOCALHOST, peer="127.0.0.1")
    large = await steps.ask(LOCALHOST, peer="127.0.0.1", chunks=[b"bodies"])
    said = [record.msg.fields for record in caplog.records if record.name == "partway.audit"]
    assert [line["outcome"] for line in said] == ["done", RequestTooLarge.name]
    assert [line["request_id"] for line in said] == [done.request_id, large.request_id]
    assert said[0]["principal"] == of.principal


# --- What a request costs ------------------------------------------------------------------------


class Counted:
    """Notes what is drawn for a request."""

    def __init__(self):
        self.said = []

    def recognised(self):
        self.said.append("known")

    def in_vain(self):
        self.said.append("in vain")

    def cost(self, seconds):
        assert seconds >= 0
        self.said.append("cost")


async def costs(steps, *headers, **exchange):
    exchange = Recorded(*headers, method="POST", **{"path": "/at/a", **exchange})
    exchange._visit = Counted()
    await steps.dispatch(exchange)
    return exchange._visit.said


async def fail(error):
    raise error


async def test_what_is_not_measured_costs_no_seconds(monkeypatch):
    def read():
        raise AssertionError("no clock is read for it")

    monkeypatch.setattr(time, "thread_time", read)
    exchange = Recorded(method="POST", path="/nowhere")
    exchange.visitor.account.measured = False
    exchange._visit = Counted()
    await Steps().dispatch(exchange)
    assert exchange._visit.said == ["cost"]


async def test_a_request_of_somebody_known_costs_nothing():
    assert await costs(Steps()) == ["known"]


async def test_nor_does_what_somebody_known_asks_in_vain():
    assert await costs(Steps(lambda _: fail(AccessDenied("no")))) == ["known"]


@pytest.mark.parametrize(
    ("steps", "exchange"),
    [
        (Steps(error=AccessDenied("no")), {}),
        (Steps(), {"path": "/nowhere"}),
        (Steps(), {"path": "/" + "x" * 10_000}),
        (Steps(access=Access.ANYONE), {}),
    ],
    ids=["refused", "nowhere", "too long", "anyone's"],
)
async def test_what_is_answered_to_nobody_known_has_its_cost(steps, exchange):
    assert await costs(steps, **exchange) == ["cost"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, ["known"]),
        (AccessDenied("no"), ["known", "in vain", "cost"]),
        (ContainerError("no"), ["known"]),
        (ZeroDivisionError(), ["known"]),
    ],
    ids=["granted", "asked in vain", "the container's fault", "our fault"],
)
async def test_where_nobody_is_asked_for_their_name(error, said):
    steps = Steps(None if error is None else lambda _: fail(error))
    steps.dispatch = Dispatcher(
        steps.dispatch._routes, NoAuthentication(), ARNS, frozenset(), steps.refused.append
    )
    assert await costs(steps) == said
