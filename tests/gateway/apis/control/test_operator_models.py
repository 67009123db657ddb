"""partway.gateway.apis.control.operator_models: what is kept of the operator's models."""

from __future__ import annotations

from pathlib import Path

from partway.gateway.apis.control.operator_models import (
    INSTEAD_OF_IMAGE,
    OperatorCommand,
    command_of,
    is_made_for,
    is_of_operator,
    kept_of,
)
from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.launchers.images import is_image

HERE = Path("/home/me")


def test_what_is_kept_of_a_command():
    kept = kept_of("Chat", OperatorCommand(("bin/serve", "--fast"), HERE))
    assert command_of(kept) == Program(("/home/me/bin/serve", "--fast"), HERE)
    assert is_of_operator(kept)
    assert is_made_for(kept, "chat")
    assert not is_made_for(kept, "cha")


def test_what_is_kept_where_an_image_runs():
    assert command_of(kept_of("chat")) is None
    assert is_of_operator(kept_of("chat"))
    assert not is_of_operator({})
    assert not is_made_for({}, "chat")


def test_what_stands_for_an_image_can_be_none():
    assert not is_image(INSTEAD_OF_IMAGE)
