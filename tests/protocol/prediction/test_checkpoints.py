"""partway.protocol.prediction.checkpoints: work ends where its caller wants it to end."""

from __future__ import annotations

import contextvars

import pytest

from partway.protocol.prediction.checkpoints import checked_by, checkpoint


class NotWanted(Exception):
    """The caller of these tests wants no more work."""


def refuse():
    raise NotWanted


def test_work_ends_at_a_checkpoint():
    with checked_by(refuse), pytest.raises(NotWanted):
        checkpoint()


def test_elsewhere_a_checkpoint_does_nothing():
    checkpoint()
    with checked_by(refuse):
        contextvars.Context().run(checkpoint)
    checkpoint()


def test_the_innermost_caller_is_asked():
    asked = []
    with checked_by(refuse), checked_by(lambda: asked.append("inner")):
        checkpoint()
    assert asked == ["inner"]
