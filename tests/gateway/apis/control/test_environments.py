"""partway.gateway.apis.control.environments: what an Environment may give to what runs."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.environments import environment_of
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import Image, Program

CHAT = Program(("chat", "serve"))
ENGINE = Image("chat:1")
LISTED = ("SAGEMAKER_*", "TOKEN")


def given(source, *names, listed=LISTED):
    container = {"Image": "chat:1", "Environment": dict.fromkeys(names, "secret")}
    return [name for name, _ in environment_of("mine", container, source, listed)]


def refusal(source, *names, listed=LISTED):
    with pytest.raises(ValidationException) as caught:
        given(source, *names, listed=listed)
    assert "secret" not in caught.value.message
    return caught.value.message


def test_a_program_is_given_what_is_listed():
    names = ["SAGEMAKER_", "SAGEMAKER_PROGRAM", "TOKEN"]
    assert given(CHAT, *reversed(names)) == names
    assert environment_of("mine", {"Image": "chat:1"}, CHAT, ()) == ()


@pytest.mark.parametrize(
    "name",
    [
        *("BASH_ENV", "BROWSER", "LD_PRELOAD", "PATH", "PYTHONPATH", "PYTHONWARNINGS"),
        *("PARTWAY_APP", "PARTWAY_MODEL", "PARTWAY_SCRIPT"),
        *("TOKENS", "TOKE", "token", "SAGEMAKER", "A_SAGEMAKER_B", "sagemaker_a"),
    ],
)
def test_and_nothing_else_of_what_could_be_a_command(name):
    message = refusal(CHAT, "TOKEN", name)
    assert f"model 'mine' has {name}" in message
    assert "environment under [api] lists (SAGEMAKER_*, TOKEN)" in message
    assert given(ENGINE, name) == [name]
    assert given(CHAT, name, listed=(name,)) == [name]
    assert "lists (none)" in refusal(CHAT, name, listed=())


@pytest.mark.parametrize(
    "name",
    [
        *("SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE", "SM_MODEL_DIR"),
        *("PARTWAY_BIND_TO_HOST", "CUDA_VISIBLE_DEVICES", "_PARTWAY_LEASH"),
    ],
)
def test_what_the_gateway_sets_is_never_a_callers(name):
    message = refusal(CHAT, name, listed=(name, f"{name}*", "SAGEMAKER_*"))
    assert f"has {name}, which only the gateway sets" in message


def test_a_container_is_given_all_but_its_port():
    assert given(ENGINE, "CUDA_VISIBLE_DEVICES", "SM_MODEL_DIR", listed=()) == [
        "CUDA_VISIBLE_DEVICES",
        "SM_MODEL_DIR",
    ]
    assert "which only the gateway sets" in refusal(ENGINE, "SAGEMAKER_BIND_TO_PORT")


def test_a_zero_byte():
    container = {"Image": "chat:1", "Environment": {"TOKEN": "secret\0"}}
    with pytest.raises(ValidationException, match="value of TOKEN in the Environment has a zero"):
        environment_of("mine", container, CHAT, LISTED)
