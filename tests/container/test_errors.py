"""partway.container.errors: what a client may know of a failure."""

from __future__ import annotations

import logging
import pickle
import re

import pytest

from partway.container.errors import (
    Busy,
    HandlerBlocked,
    ModelError,
    TooSlow,
    WorkerDied,
    cause_of,
    log_failure,
    reason_of,
)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (ModelError("no"), 1011, 500),
        (ModelError("no", code=4000, status=418), 4000, 418),
        (Busy("full"), 1013, 503),
        (TooSlow("late"), 1011, 504),
        (WorkerDied("gone"), 1011, 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_close_code_and_status(error, code, status):
    assert (error.code, error.status) == (code, status)
    assert reason_of(error) == str(error)


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
def test_a_code_that_may_not_travel(code):
    with pytest.raises(ValueError, match=f"close code {code} may not travel"):
        ModelError("no", code=code)


@pytest.mark.parametrize("status", [0, 200, 399, 600])
def test_a_status_that_is_no_errors(status):
    with pytest.raises(ValueError, match=f"{status} "):
        ModelError("no", status=status)


class Special(ModelError):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} of {second}", code=4001)


def test_it_crosses_from_a_worker_process_as_it_is():
    crossed = pickle.loads(pickle.dumps(Special(1, 2)))
    assert (type(crossed), crossed.reason, crossed.code) == (Special, "1 of 2", 4001)


def test_of_another_exception_its_type_alone():
    assert reason_of(ValueError("what somebody else has sent")) == "the model failed: ValueError"


def test_the_one_cause_of_tasks_that_failed_together():
    one = ValueError("one")
    assert cause_of(ExceptionGroup("a", [ExceptionGroup("b", [one])])) is one
    two = ExceptionGroup("a", [one, KeyError("two")])
    assert cause_of(two) is two


@pytest.mark.parametrize(
    ("error", "level", "traceback"),
    [
        (ModelError("no"), logging.INFO, False),
        (HandlerBlocked("too long"), logging.ERROR, True),
        (ValueError("x"), logging.ERROR, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_log_has_a_traceback_where_one_is_needed(caplog, error, level, traceback):
    with caplog.at_level(logging.INFO, "tests"):
        log_failure(logging.getLogger("tests"), "stream", error, request_id="1")
    (record,) = caplog.records
    assert record.levelno == level
    assert re.match(r"the model (gave up|failed) what=stream request_id=1\b", record.getMessage())
    assert bool(record.exc_info) is traceback
