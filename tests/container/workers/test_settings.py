"""What an author may ask for."""

from __future__ import annotations

import math

import pytest

from partway.container import Processes, Threads
from partway.container.limits import JOB_DEADLINE, QUEUE_LENGTH

KINDS = pytest.mark.parametrize("kind", [Threads, Processes])


@KINDS
def test_defaults(kind: type[Threads]) -> None:
    settings = kind()
    assert (settings.count, settings.queue, settings.deadline) == (1, QUEUE_LENGTH, JOB_DEADLINE)


@KINDS
def test_the_least_there_is(kind: type[Threads]) -> None:
    settings = kind(count=1, queue=0, deadline=0.001)
    assert settings == kind(1, 0, 0.001)


@KINDS
@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": -1},
        {"queue": -1},
        {"deadline": 0},
        {"deadline": -1.0},
        {"deadline": math.inf},
        {"deadline": math.nan},
    ],
    ids=str,
)
def test_what_makes_no_sense(kind: type[Threads], wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**wrong)  # type: ignore[arg-type]  # what is tested
