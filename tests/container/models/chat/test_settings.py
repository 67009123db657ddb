"""partway.container.models.chat.settings: what variables may have."""

from __future__ import annotations

import pytest

from partway.container.cli import CommandError
from partway.container.cli.serve_settings import set_variables
from partway.container.models.chat.settings import ChatSettings


def test_all_variables():
    settings = ChatSettings.from_environment(
        {
            "PARTWAY_CHAT_UPSTREAM": "http://a:1/v1/, https://b/v1",
            "PARTWAY_CHAT_MODEL": "m",
            "PARTWAY_CHAT_SYSTEM": "s",
            "PARTWAY_CHAT_OPTIONS": '{"temperature": 0}',
            "PARTWAY_CHAT_API_KEY": "k",
            "PARTWAY_CHAT_TIMEOUT": "2.5",
            "PARTWAY_CHAT_MAX_TURNS": "7",
        }
    )
    urls = ("http://a:1/v1", "https://b/v1")
    assert settings == ChatSettings(
        upstreams=urls,
        model="m",
        system="s",
        options={"temperature": 0},
        api_key="k",
        timeout=2.5,
        max_turns=7,
    )
    assert "'k'" not in repr(settings)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"UPSTREAM": ""},
            r"PARTWAY_CHAT_UPSTREAM \(--set upstream=…\) is not set, or is empty; it must be ",
        ),
        ({"UPSTREAM": ","}, "PARTWAY_CHAT_UPSTREAM: 0 URLs were given; it must have 1 to 16"),
        ({"UPSTREAM": "localhost:8000"}, "PARTWAY_CHAT_UPSTREAM: 'localhost:8000' was given; it"),
        ({"UPSTREAM": "ftp://a/v1"}, "PARTWAY_CHAT_UPSTREAM: 'ftp://a/v1' was given; it must"),
        ({"UPSTREAM": "http://u:secret@a/v1"}, "PARTWAY_CHAT_UPSTREAM: 'a/v1' was given; it must"),
        ({"UPSTREAM": "http://[x"}, "PARTWAY_CHAT_UPSTREAM: 'http://\\[x' was given"),
        ({"UPSTREAM": "http://a:x/v1"}, "PARTWAY_CHAT_UPSTREAM: 'http://a:x/v1' was given"),
        ({"API_KEY": "k\n"}, "PARTWAY_CHAT_API_KEY: this has other characters than visible ASCII"),
        ({"TIMEOUT": "0"}, "PARTWAY_CHAT_TIMEOUT is '0'; it must be a number"),
        ({"TIMEOUT": "nan"}, "PARTWAY_CHAT_TIMEOUT is 'nan'; it must be a number"),
        ({"OPTIONS": "[]"}, "PARTWAY_CHAT_OPTIONS is '\\[\\]'; it must be a JSON object"),
        ({"MAX_TURNS": "-1"}, "PARTWAY_CHAT_MAX_TURNS is '-1'; it must be a whole number"),
    ],
)
def test_a_wrong_variable(changes, says):
    variables = {"PARTWAY_CHAT_UPSTREAM": "http://a/v1"}
    variables |= {f"PARTWAY_CHAT_{name}": value for name, value in changes.items()}
    with pytest.raises(ValueError, match=says):
        ChatSettings.from_environment(variables)


def test_flags_set_variables():
    environ = {"PARTWAY_CHAT_MODEL": "before"}
    set_variables(["upstream=http://a/v1", "model=a=b"], "chat", ChatSettings, environ)
    assert environ == {"PARTWAY_CHAT_UPSTREAM": "http://a/v1", "PARTWAY_CHAT_MODEL": "a=b"}
    set_variables([], "echo", None, environ)


@pytest.mark.parametrize(
    ("given", "model", "says"),
    [
        ("upstream", "chat", "--set must have NAME=VALUE"),
        (
            "apikey=secret",
            "chat",
            r"--set apikey=… was given; the model chat has api_key, max_turns",
        ),
        ("upstream=x", "echo", "--set upstream=… was given; the model echo has no settings"),
    ],
)
def test_a_wrong_flag(given, model, says):
    with pytest.raises(CommandError, match=says):
        set_variables([given], model, ChatSettings if model == "chat" else None, {})
