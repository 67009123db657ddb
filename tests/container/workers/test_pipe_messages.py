"""Values and exceptions on their way between processes."""

from __future__ import annotations

import pickle

import pytest

from partway.container import Busy, ModelError, TooSlow, WorkerDied
from partway.container.limits import MAX_TRACEBACK
from partway.container.workers.pipe_messages import (
    ERROR,
    RESULT,
    pack,
    pack_error,
    unpack,
    unpack_error,
)
from tests.container.workers.models import Fussy, OnlyHere, Quota


def crossed(error: Exception) -> Exception:
    """An exception after it was raised, packed and unpacked."""
    try:
        raise error
    except Exception as raised:
        message = pack_error(ERROR, raised)
    assert message[:1] == ERROR
    return unpack_error(message)


@pytest.mark.parametrize("value", [None, 5, "é", b"\0" * 100_000, {"a": [1, (2, None)]}])
def test_values(value: object) -> None:
    message = pack(RESULT, value, "it")
    assert message[:1] == RESULT
    assert unpack(message, "it") == value


def test_a_value_that_cannot_be_taken_apart() -> None:
    with pytest.raises(TypeError, match=r"the result of f\(\) cannot be sent between processes"):
        pack(RESULT, lambda: None, "the result of f()")


def test_a_value_that_cannot_be_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    message = pack(RESULT, OnlyHere(), "it")
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(TypeError, match="it cannot be sent between processes: made in"):
        unpack(message, "it")


def test_an_exception_keeps_type_and_arguments() -> None:
    error = crossed(LookupError("nothing", 5))
    assert type(error) is LookupError
    assert error.args == ("nothing", 5)


def test_its_traceback_is_a_note() -> None:
    (note,) = crossed(LookupError("nothing")).__notes__
    assert note.startswith("In the worker process:\n\nTraceback (most recent call last):\n")
    assert "in crossed" in note


@pytest.mark.parametrize(
    "error",
    [
        ModelError("no", code=4005, status=418),
        Busy("later"),
        TooSlow("too late"),
        WorkerDied("gone"),
        Quota(5, user="ann"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_models_error_keeps_what_it_says(error: ModelError) -> None:
    other = crossed(error)
    assert type(other) is type(error)
    assert isinstance(other, ModelError)
    assert (other.reason, other.code, other.status) == (error.reason, error.code, error.status)
    assert str(other) == str(error)


def test_a_models_error_of_a_type_that_cannot_cross() -> None:
    class Local(ModelError):
        pass

    other = crossed(Local("no", code=4005, status=418))
    assert type(other) is ModelError
    assert (other.reason, other.code, other.status) == ("no", 4005, 418)


def test_an_exception_that_cannot_be_put_together() -> None:
    other = crossed(Fussy("this", "that"))
    assert type(other) is RuntimeError
    assert str(other) == "tests.container.workers.models.Fussy: this and that"
    assert "in crossed" in other.__notes__[0]


def test_an_exception_that_holds_what_cannot_cross() -> None:
    other = crossed(LookupError(lambda: None))
    assert type(other) is RuntimeError
    assert str(other).startswith("LookupError: <function")


def test_an_exception_that_cannot_be_put_together_on_this_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = pack_error(ERROR, LookupError(OnlyHere()))
    monkeypatch.setattr("os.getpid", lambda: -1)
    other = unpack_error(message)
    assert type(other) is RuntimeError
    assert "made in" in str(other)


def test_what_is_no_ordinary_exception_does_not_become_one() -> None:
    message = ERROR + pickle.dumps((pickle.dumps(SystemExit(1)), ""))
    assert type(unpack_error(message)) is RuntimeError


def test_a_long_traceback_is_cut_from_its_start() -> None:
    error = crossed(LookupError("x" * MAX_TRACEBACK + " the end"))
    assert len(error.__notes__[0]) < MAX_TRACEBACK + 100
    assert error.__notes__[0].endswith(" the end\n")


class Rude:
    """Ends whoever takes it apart, or puts it together."""

    def __init__(self, when: str = "apart") -> None:
        self.when = when

    def __getstate__(self) -> dict[str, str]:
        if self.when == "apart":
            raise SystemExit(3)
        return {"when": self.when}

    def __setstate__(self, state: dict[str, str]) -> None:
        raise SystemExit(3)


def test_a_value_that_would_end_the_process() -> None:
    with pytest.raises(TypeError, match="this cannot be sent between processes: 3"):
        pack(RESULT, Rude(), "this")
    message = pack(RESULT, Rude("together"), "this")
    with pytest.raises(TypeError, match="this cannot be sent between processes: 3"):
        unpack(message, "this")
    error = unpack_error(pack_error(ERROR, ValueError(Rude())))
    assert isinstance(error, RuntimeError)
