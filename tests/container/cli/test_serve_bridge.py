"""Settings of a bridge: flags and variables."""

from __future__ import annotations

import argparse

import pytest

from partway.container.bridge.settings import BridgeSettings
from partway.container.cli import CommandError
from partway.container.cli.main import main
from partway.container.cli.serve_bridge import add_flags, read_bridge
from partway.container.cli.target import KINDS, choose

VARIABLES = {
    "PARTWAY_UPSTREAM": "ws://variable:1/x",
    "PARTWAY_UPSTREAM_ROUTES": "a b=ws://variable:2/",
    "PARTWAY_UPSTREAM_HEALTH": "http://variable/health",
    "PARTWAY_UPSTREAM_AUTHORIZATION": "Bearer s3cret",
    "PARTWAY_UPSTREAM_PROGRAM": "serve 'a b'",
}


def read(*words: str, **environ: str) -> BridgeSettings | None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    flags, program = words, []
    if "--" in words:
        flags, program = words[: words.index("--")], [*words[words.index("--") + 1 :]]
    options = parser.parse_args(flags, argparse.Namespace(program=program))
    target = choose({kind: getattr(options, kind, None) for kind in KINDS}, environ)
    return read_bridge(options, target, environ)


def test_variables() -> None:
    settings = read(**VARIABLES)
    assert settings is not None
    assert {path: str(url) for path, url in settings.paths.items()} == {
        "invocations-bidirectional-stream": "ws://variable:1/x",
        "x": "ws://variable:1/x",
        "a": "ws://variable:1/a",
        "b": "ws://variable:2/",
    }
    assert str(settings.health.url) == "http://variable/health"
    assert settings.authorization == "Bearer s3cret"
    assert settings.program == ["serve", "a b"]


def test_a_flag_goes_before_its_variable() -> None:
    flags = ("--upstream", "ws://flag/", "--route", "c", "--route", "/d=ws://flag:4/", "--health")
    settings = read(*flags, "https://flag/", "--", "vllm", "--port", "1", **VARIABLES)
    assert settings is not None
    assert sorted(settings.paths) == ["c", "d", "invocations-bidirectional-stream"]
    assert settings.upstream.host == settings.health.url.host == "flag"
    assert settings.program == ["vllm", "--port", "1"]


def test_an_empty_variable_counts_as_unset() -> None:
    assert read(**dict.fromkeys(VARIABLES, "")) is None
    settings = read(**(dict.fromkeys(VARIABLES, "") | {"PARTWAY_UPSTREAM": "ws://a/"}))
    assert settings is not None
    assert (settings.program, settings.authorization) == ((), "")


def test_variables_of_an_upstream_that_is_not_served_are_left_alone() -> None:
    assert read(**(VARIABLES | {"PARTWAY_UPSTREAM": ""})) is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--health", "http://a/"],
            "--health was given with the default model echo; it is allowed only with --upstream",
        ),
        (["--route", "a"], "--route was given with the default model echo"),
        (["--", "vllm"], "-- was given with the default model echo; it is allowed only with"),
        (["--model", "chat", "--", "vllm"], "-- was given with --model chat; it is allowed"),
        (["--upstream", "http://a/"], "--upstream names 'http://a/'; it must be a URL"),
        (["--upstream", "ws://a/", "--model", "chat"], "--model chat and --upstream ws://a/ are"),
        (["vllm"], "unrecognized arguments: vllm; see partway-container serve --help"),
    ],
)
def test_what_is_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KINDS.values(), *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    try:
        status = main(["serve", *words])
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert f"partway-container: {why}" in capsys.readouterr().err


def test_an_error_names_its_variable() -> None:
    with pytest.raises(CommandError, match=r"^PARTWAY_UPSTREAM_ROUTES names the path '\*'; it"):
        read(**(VARIABLES | {"PARTWAY_UPSTREAM_ROUTES": "a *=ws://b/"}))
