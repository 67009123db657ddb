"""partway certs, as a process and in this one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from partway.gateway.cli.main import main
from partway.gateway.tls.context import TlsFiles, server_context
from tests.conftest import ROOT
from tests.gateway.tls.peers import Ends, trusting


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path, monkeypatch):
    """No test writes where this user's CA is, nor depends on this user's region."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def certs(*flags: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "partway.gateway.cli.main", "certs", *map(str, flags)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT
    )


def lines_of(capsys: pytest.CaptureFixture[str], *flags: object) -> list[str]:
    """What the command prints, in this process."""
    assert main(["certs", *map(str, flags)]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output.splitlines()


def assigned(text: str) -> dict[str, str]:
    """What a shell has after the lines, taken apart by shlex."""
    found = {}
    for line in text.splitlines():
        if words := shlex.split(line, comments=True):
            export, assignment = words
            assert export == "export"
            name, _, found[name] = assignment.partition("=")
    return found


def files_in(directory: Path) -> TlsFiles:
    return TlsFiles(directory / "server.pem", directory / "server-key.pem", directory / "ca.pem")


VARIABLES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE")


@pytest.mark.parametrize("name", ["tls", "with space", "quote'd $(touch oh) `no`", "größer"])
def test_the_lines_name_the_ca_to_clients(tmp_path, name):
    directory = tmp_path / name
    process = certs("--directory", directory)
    assert (process.returncode, process.stderr) == (0, "")
    ca = directory / "ca.pem"
    assert assigned(process.stdout) == dict.fromkeys(VARIABLES, str(ca))
    Ends(server_context(files_in(directory)), trusting(ca)).shake()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh"])
def test_a_shell_takes_the_lines(tmp_path, shell, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    directory = tmp_path / "quote'd $(touch oh) `no`; x"
    text = "\n".join(lines_of(capsys, "--directory", directory, "--aws-names"))
    show = "".join(f'; printf "%s\\n" "${name}"' for name in VARIABLES)
    process = subprocess.run(
        [shell, "-c", f'eval "$1"{show}', shell, text],
        capture_output=True,
        timeout=40,
        check=False,
        cwd=tmp_path,
    )
    assert process.stderr == b""
    assert process.stdout.decode().splitlines() == [str(directory / "ca.pem")] * 3
    assert not (tmp_path / "oh").exists()


def test_comments_hold_nothing_that_a_shell_looks_at(tmp_path, capsys):
    """An interactive zsh takes a # for a command unless told otherwise."""
    for line in lines_of(capsys, "--directory", tmp_path, "--aws-names"):
        if line.startswith("#"):
            assert re.fullmatch(r"[#\w .,:;/=@%+-]*", line.replace(str(tmp_path), "")), line
            assert ";" not in line
        else:
            assert line == "" or line.startswith("export ")


def test_the_line_for_openssl_warns_that_it_takes_the_place_of_the_roots(tmp_path, capsys):
    lines = lines_of(capsys, "--directory", tmp_path)
    before = lines[lines.index(f"export SSL_CERT_FILE={tmp_path}/ca.pem") - 1]
    assert "replaces the roots of the system in such a process" in before


def test_a_second_time_gives_the_same(tmp_path, capsys):
    first = lines_of(capsys, "--directory", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert lines_of(capsys, "--directory", tmp_path) == first
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize(
    ("flags", "environment", "region"),
    [
        ([], {}, "us-east-1"),
        ([], {"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"),
        ([], {"AWS_REGION": "ap-south-1", "AWS_DEFAULT_REGION": "eu-west-1"}, "ap-south-1"),
        ([], {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"),
        (["--region", "us-west-2"], {"AWS_REGION": "ap-south-1"}, "us-west-2"),
    ],
)
def test_the_host_that_clients_have_hard_coded(
    tmp_path, capsys, monkeypatch, flags, environment, region
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    host = f"runtime.sagemaker.{region}.amazonaws.com"
    assert host not in "".join(lines_of(capsys, "--directory", tmp_path, *flags))
    *_, before, last = lines_of(capsys, "--directory", tmp_path, "--aws-names", *flags)
    assert last == f"#   127.0.0.1 {host}"
    assert "/etc/hosts" in before
    assert "8443" in before
    files = files_in(tmp_path)
    Ends(server_context(files), trusting(tmp_path / "ca.pem"), host).shake()
    Ends(server_context(files), trusting(tmp_path / "ca.pem"), "localhost").shake()


def test_more_names(tmp_path, capsys):
    lines_of(capsys, "--directory", tmp_path, "--name", "gateway.example", "--name", "192.0.2.1")
    for name in ("gateway.example", "192.0.2.1", "127.0.0.1", "::1"):
        Ends(server_context(files_in(tmp_path)), trusting(tmp_path / "ca.pem"), name).shake()


def test_the_users_own_directory(tmp_path, capsys, monkeypatch):
    ca = tmp_path / "home" / ".local" / "share" / "partway" / "tls" / "ca.pem"
    assert f"export SSL_CERT_FILE={ca}" in lines_of(capsys)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert f"export SSL_CERT_FILE={tmp_path}/data/partway/tls/ca.pem" in lines_of(capsys)


def test_a_relative_directory_is_printed_as_an_absolute_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert f"export SSL_CERT_FILE={tmp_path}/here/ca.pem" in lines_of(capsys, "--directory", "here")


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no keytool")
def test_the_lines_for_java(tmp_path, capsys):
    directory = tmp_path / "a b"
    (line,) = (line for line in lines_of(capsys, "--directory", directory) if "keytool" in line)
    command = shlex.split(line.removeprefix("#"))
    process = subprocess.run(command, capture_output=True, timeout=50, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert (directory / "ca.p12").stat().st_size > 0


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--aws-names", "--region", "cn-north-1"],
            "region: 'cn-north-1' was given; it must be an AWS",
        ),
        (
            ["--aws-names", "--region", "$(id)"],
            "region: '$(id)' was given; it must be an AWS region",
        ),
        (["--name", "a_b"], "'a_b' was given; it must be an IP address or a DNS name"),
        (["--name", "0.0.0.0"], "'0.0.0.0' was given; it must be the address of one"),
        (["--directory", "a\nb"], "its path must have only printable characters"),
        (["--directory", "a\x1b[2J"], "its path must have only printable characters"),
    ],
)
def test_what_is_asked_wrongly(tmp_path, capsys, monkeypatch, flags, said):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["certs", *flags])
    except SystemExit as exit:  # argparse's
        code = exit.code
    output, errors = capsys.readouterr()
    assert (code, output) == (2, "")
    assert said in errors
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong(tmp_path):
    (tmp_path / "ca.pem").write_text("garbled")
    process = certs("--directory", tmp_path)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == (
        f"partway certs: {tmp_path}/ca.pem: the file is not a certificate in PEM; "
        "put the right one back, or remove it\n"
    )


def test_a_user_without_a_home(capsys, monkeypatch):
    monkeypatch.delenv("HOME")
    assert main(["certs"]) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(
        "partway certs: no directory for the local CA: set HOME or XDG_DATA_HOME"
    )


def test_nothing_of_a_key_is_printed(tmp_path, capsys):
    text = "\n".join(lines_of(capsys, "--directory", tmp_path, "--aws-names"))
    for name in ("ca-key.pem", "server-key.pem"):
        secret = (tmp_path / name).read_text().splitlines()[1]
        assert secret not in text
    assert "PRIVATE" not in text
    assert os.fspath(tmp_path / "ca.pem") in text
