"""partway serve --check: whether what the settings name is there, and what would run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partway.gateway.apis.manifests import NAMES
from partway.gateway.cli.main import main


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs the command: its status, and the lines of standard output and of standard error.

    The first line of standard output, which names the APIs, is looked at here.
    """
    monkeypatch.chdir(tmp_path)

    def run(text: str, *flags: str) -> tuple[int, list[str], list[str]]:
        Path("partway.toml").write_text(text, "utf-8")
        code = main(["serve", "--config", "partway.toml", "--check", *flags])
        output, errors = capsys.readouterr()
        lines = output.splitlines()
        assert lines[:1] == ([] if code else [f"apis: {', '.join(sorted(NAMES))}"])
        return code, lines[1:], errors.splitlines()

    return run


def test_the_apis_are_named(capsys):
    assert main(["serve", "--check", "--apis", "logs, runtime"]) == 0
    served, off, last = capsys.readouterr().out.splitlines()
    assert served == "apis: logs, runtime"
    assert off == f"apis that are switched off: {', '.join(sorted(NAMES - {'logs', 'runtime'}))}"
    assert last == "all is well: 0 endpoints, 0 images"


@pytest.mark.parametrize(
    ("apis", "said"),
    [
        ("grpc", "apis: grpc needs prediction, which is not in the list; add prediction, or leave"),
        ("none,logs", "apis: none means no API at all; it must be the only name"),
        ("log", "--apis: #1: 'log' was given; it must be one of asynchronous, control, grpc,"),
    ],
)
def test_apis_that_cannot_be_served_are_refused(capsys, apis, said):
    assert main(["serve", "--check", "--apis", apis]) == 2
    assert capsys.readouterr().err.startswith(f"partway serve: {said}")


def test_settings_of_an_api_that_is_off_are_checked(checked):
    code, _, errors = checked("apis = []\nmax_transform_jobs = 0\n")
    assert code == 2
    assert "max_transform_jobs" in errors[0]


def test_each_endpoint_has_a_line_with_what_would_run(checked, tmp_path):
    program = tmp_path / "chat"
    program.touch(0o755)
    (tmp_path / "model").mkdir()
    text = """
        [images]
        "chat:1" = "./chat 'a b'"
        [endpoints.one]
        url = "http://h:1"
        [endpoints.two]
        urls = ["https://h", "https://i"]
        [endpoints.started]
        image = "chat:1"
        instances = 2
        model_data = "model"
        environment = { TOKEN = "geheim" }
        [endpoints.engine]
        image = "chat:2"
        pull = "never"
        model_data = "s3://bucket/model"
        [endpoints.several.variants.a]
        command = "./chat"
        weight = 9
        [endpoints.several.variants.b]
        url = "http://h:2"
        [[endpoints.pipeline.containers]]
        hostname = "pre"
        command = "./chat"
        model_data = "model"
        [[endpoints.pipeline.containers]]
        url = "http://h:3"
    """
    code, output, errors = checked(text, "--endpoint", "line=./chat", "--port", "1")
    assert (code, errors) == (0, [])
    assert output == [
        "one: http://h:1",
        "two: https://h:443, https://i:443",
        f"started: 2 instances of {program} 'a b', in {tmp_path}, with {tmp_path / 'model'}",
        (
            "engine: 1 instance of the image chat:2 by a container engine, pull: never, "
            "with s3://bucket/model"
        ),
        f"several: a (weight 9): 1 instance of {program}, in {tmp_path}; b (weight 1): http://h:2",
        (
            f"pipeline: 1 instance of 2 containers, serial: pre: {program}, in {tmp_path}, "
            f"with {tmp_path / 'model'}, container-2: http://h:3"
        ),
        "line: 1 instance of ./chat",
        f"image chat:1: {program} 'a b', in {tmp_path}",
        "all is well: 7 endpoints, 1 image",
    ]


def test_settings_without_endpoints_are_well_too(checked):
    assert checked("") == (0, ["all is well: 0 endpoints, 0 images"], [])


def test_the_programs_of_images_are_looked_up(checked, tmp_path):
    """A caller of the API may deploy them at any time, long after the gateway's start."""
    (tmp_path / "readme").touch(0o644)
    text = """
        [images]
        "chat:1" = "no-such-program serve"
        "chat:2" = "./readme"
        "chat:3" = "cat"
    """
    code, output, errors = checked(text)
    assert (code, output) == (2, [])
    assert len(errors) == 2
    assert errors[0].startswith(
        "partway serve: images.\"chat:1\": there is no program 'no-such-program'"
    )
    assert errors[1].startswith('partway serve: images."chat:2": ')


def test_a_container_that_ships_is_there(checked):
    code, output, _ = checked('[endpoints.a]\nimage = "echo"')
    assert code == 0
    assert output[0].startswith(f"a: 1 instance of {sys.executable} -P -m partway.container serve")


def test_what_is_not_there_is_named_all_of_it(checked, tmp_path):
    Path("roots.pem").write_text("no certificate")
    text = """
        tls_port = 0
        tls_cert = "cert.pem"
        tls_key = "key.pem"
        auth = "sigv4"
        principals = "who.toml"
        container_ca = "roots.pem"
        [endpoints.a]
        command = "./nobody"
        [endpoints.b]
        command = "true"
        cwd = "nowhere"
        model_data = "nothing.tar.gz"
        [[endpoints.c.containers]]
        command = "true"
        [[endpoints.c.containers]]
        command = "./nobody"
        model_data = "nothing.tar.gz"
    """
    code, output, errors = checked(text)
    assert (code, output) == (2, [])
    lines = [line.removeprefix("partway serve: ").replace(f"{tmp_path}/", "") for line in errors]
    assert lines == [
        "who.toml: cannot be read: No such file or directory",
        "cert.pem: there is no such file",
        "container_ca: roots.pem: the file holds no certificate in PEM",
        "endpoints.a: nobody: there is no such program",
        "endpoints.b: nowhere: there is no such folder to run 'true' in",
        "endpoints.b.model_data: nothing.tar.gz: there is no such file or folder",
        "endpoints.c.containers#2: nobody: there is no such program",
        "endpoints.c.containers#2.model_data: nothing.tar.gz: there is no such file or folder",
    ]


def test_names_that_no_certificate_can_carry(checked):
    code, _, errors = checked('tls_port = 0\ntls_names = ["a b"]')
    assert code == 2
    assert errors[0].startswith("partway serve: tls_names: 'a b' was given; it must be an IP")


def test_settings_that_are_wrong_are_told_as_without_it(checked):
    code, output, errors = checked("port = -1")
    assert (code, output) == (2, [])
    assert errors == [
        "partway serve: partway.toml: port: -1 was given; it must be a whole number from 0 to 65535"
    ]


def test_folders_of_callers_are_there(checked, tmp_path):
    text = '[api]\nlocal_roots = ["asked"]\nlocal_results = ["answers"]'
    where, gone = "partway serve: api.", "there is no such folder; create it"
    code, _, errors = checked(text)
    assert (code, errors) == (
        2,
        [
            f"{where}local_roots: {tmp_path / 'asked'}: {gone}",
            f"{where}local_results: {tmp_path / 'answers'}: {gone}",
        ],
    )
    (tmp_path / "asked").mkdir(0o700)
    (tmp_path / "answers").mkdir(0o700)
    assert checked(text) == (0, ["all is well: 0 endpoints, 0 images"], [])
