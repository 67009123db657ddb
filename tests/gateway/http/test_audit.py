"""What the log of changes says, and operations that were to ask for leave."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.http.audit import AskedLeave, ChangeGoesOn, audited
from partway.gateway.http.routes import Leave, Route
from partway.log_lines import LogLine
from partway.protocol.errors import AccessDenied, ClientLeft, InputValidationError
from tests.gateway.http.test_dispatcher import ARNS, a_route
from tests.gateway.http.test_exchange import Recorded

MODEL = ARNS.of("model", "m")
CONFIG = ARNS.of("endpoint-config", "c")
CREATE = a_route("CreateModel", leave=Leave.OF_OPERATION, control=True, changes=True)
DESCRIBE = a_route("DescribeModel", leave=Leave.OF_OPERATION, control=True)
LEVEL = logging.getLogger("partway.audit").level
SOMEBODY = Identity("somebody", arn="arn:…/somebody")
NOBODY_MAY = Identity("somebody", may=lambda *_: False, arn="arn:…/somebody")


@pytest.fixture
def lines(caplog):
    """What the log of changes has, each line its fields."""
    caplog.set_level(logging.INFO, "partway.audit")

    def lines() -> list[dict[str, object]]:
        said = [record.msg for record in caplog.records if record.name == "partway.audit"]
        assert all(isinstance(line, LogLine) for line in said)
        assert {line.event for line in said} <= {"change asked for"}
        return [line.fields for line in said]

    return lines


def run(route: Route, identity: Identity, *asks: tuple[str, str], error=None, exchange=None):
    with audited(route, exchange or Recorded()) as asked:
        whose = asked.noting(identity)
        for each in asks:
            whose.check(*each)
        if error is not None:
            raise error


def test_a_change_has_one_line(lines):
    exchange = Recorded()
    run(CREATE, SOMEBODY, ("sagemaker:CreateModel", MODEL), exchange=exchange)
    assert lines() == [
        {
            "principal": "somebody",
            "action": "sagemaker:CreateModel",
            "resource": MODEL,
            "request_id": exchange.request_id,
            "peer": "192.0.2.1",
            "outcome": "done",
        }
    ]


def test_a_change_that_asks_for_several_things_names_each_once(lines):
    create, tag = "sagemaker:CreateModel", "sagemaker:AddTags"
    run(CREATE, SOMEBODY, (create, MODEL), (tag, MODEL), (create, CONFIG), (create, MODEL))
    (line,) = lines()
    assert (line["action"], line["resource"]) == (f"{create} {tag}", f"{MODEL} {CONFIG}")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InputValidationError("no"), "InputValidationError"),
        (ClientLeft(), "broken off"),
        (asyncio.CancelledError(), "broken off"),
        (ZeroDivisionError("secret"), "InternalServerError"),
    ],
)
def test_what_came_of_it(lines, error, outcome):
    with pytest.raises(type(error)):
        run(CREATE, SOMEBODY, ("sagemaker:CreateModel", MODEL), error=error)
    (line,) = lines()
    assert (line["outcome"], line["resource"]) == (outcome, MODEL)
    assert "secret" not in str(line)


@pytest.mark.parametrize("error", [ClientLeft(), asyncio.CancelledError()])
def test_a_change_whose_client_left_before_it_was_begun(lines, error):
    with pytest.raises(type(error)):
        run(CREATE, SOMEBODY, error=error)
    (line,) = lines()
    assert (line["outcome"], line["resource"]) == ("not begun", None)
    assert (line["principal"], line["action"]) == ("somebody", "sagemaker:CreateModel")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "done"),
        (InputValidationError("no"), "InputValidationError"),
        (ZeroDivisionError("secret"), "InternalServerError"),
        (asyncio.CancelledError(), "broken off"),
    ],
)
async def test_a_change_that_goes_on_without_its_client_is_told_when_it_is_over(
    lines, error, outcome
):
    go_on = asyncio.Event()

    async def change():
        await go_on.wait()
        if error is not None:
            raise error

    task = asyncio.create_task(change())
    asks = ("sagemaker:CreateModel", MODEL)
    with pytest.raises(asyncio.CancelledError):
        run(CREATE, SOMEBODY, asks, error=ChangeGoesOn(task))
    assert lines() == []
    go_on.set()
    await asyncio.wait((task,))
    (line,) = lines()
    assert (line["outcome"], line["resource"]) == (outcome, MODEL)
    assert "secret" not in str(line)


def test_a_change_that_was_refused(lines):
    with pytest.raises(AccessDenied):
        run(CREATE, NOBODY_MAY, ("sagemaker:CreateModel", MODEL))
    (line,) = lines()
    assert (line["outcome"], line["resource"]) == ("AccessDeniedException", MODEL)


def test_what_strangers_ask_for_fills_no_log(lines):
    with pytest.raises(AccessDenied), audited(CREATE, Recorded()):
        raise AccessDenied("who?")
    assert lines() == []


def test_a_change_that_was_refused_before_its_operation_knew_of_what(lines):
    with pytest.raises(InputValidationError):
        run(CREATE, SOMEBODY, error=InputValidationError("no"))
    (line,) = lines()
    assert (line["principal"], line["action"]) == ("somebody", "sagemaker:CreateModel")
    assert (line["resource"], line["outcome"]) == (None, "InputValidationError")


def test_changes_are_told_however_quiet_the_log_is(lines, caplog):
    caplog.set_level(logging.ERROR, "partway")
    caplog.handler.setLevel(logging.NOTSET)
    logging.getLogger("partway.audit").setLevel(LEVEL)
    run(CREATE, SOMEBODY, ("sagemaker:CreateModel", MODEL))
    assert len(lines()) == 1


def test_a_line_is_bounded_whatever_is_asked_for(lines):
    run(CREATE, SOMEBODY, *(("sagemaker:AddTags", f"{MODEL}-{n}") for n in range(1000)))
    (line,) = lines()
    assert len(str(line)) < 1000


def test_what_changes_nothing_has_no_line(lines):
    run(DESCRIBE, SOMEBODY, ("sagemaker:DescribeModel", MODEL))
    assert lines() == []


def test_an_operation_that_was_to_ask_for_leave_and_has_not_has_failed(lines):
    with pytest.raises(AssertionError, match="CreateModel must check its sender's permission"):
        run(CREATE, SOMEBODY)
    assert [line["outcome"] for line in lines()] == ["InternalServerError"]
    with pytest.raises(AssertionError):
        run(DESCRIBE, SOMEBODY)


def test_where_somebody_else_checks_the_operation_need_not():
    run(a_route("Ask"), NOBODY_MAY)
    run(a_route("Healthz", access=Access.ANYONE, leave=Leave.OF_OPERATION), SOMEBODY)
    assert AskedLeave(a_route("Ask")).noting(SOMEBODY) is SOMEBODY
