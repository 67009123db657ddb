"""partway.gateway.fleet.launchers.images: what runs an image."""

from __future__ import annotations

import sys

import pytest

from partway.container.models import MODELS
from partway.gateway.fleet.endpoint import Image, Program
from partway.gateway.fleet.launchers.images import SHIPPED, is_image, resolve_image

CHAT = Program(("chat", "--serve"))


def test_an_entry_of_the_table_goes_before_all():
    images = {"echo": CHAT, "registry.example/chat:1": CHAT}
    assert resolve_image("registry.example/chat:1", images) is CHAT
    assert resolve_image("echo", images) is CHAT


@pytest.mark.parametrize("name", SHIPPED)
def test_containers_that_ship_are_processes_of_this_machine_for_it_alone(name):
    program = resolve_image(name, {}, "always")
    assert isinstance(program, Program)
    assert program.command[:6] == (
        sys.executable,
        "-P",
        "-m",
        "partway.container",
        "serve",
        "--model",
    )
    assert program.command[6:] == (name,)


def test_they_are_all_that_ship():
    assert set(SHIPPED) == set(MODELS)


def test_all_others_are_the_engine_s():
    assert resolve_image("chat:1", {"chat:2": CHAT}) == Image("chat:1", "missing")
    assert resolve_image("chat:1", {}, "never") == Image("chat:1", "never")
    assert resolve_image("docker://echo", {"echo": CHAT}) == Image("echo", "missing")


@pytest.mark.parametrize(
    "name",
    [
        "echo",
        "a:1",
        "127.0.0.1:5000/a/b:latest",
        "a@sha256:" + "0" * 64,
        "docker://a:1",
        "A/b_c-d.e",
    ],
)
def test_what_may_name_an_image(name):
    assert is_image(name)


@pytest.mark.parametrize(
    "name", ["", "docker://", "a b", "-a", "https://a", "a:", "a/", "a" * 600, "a\n", "é"]
)
def test_what_may_not(name):
    assert not is_image(name)
