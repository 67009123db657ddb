"""partway kubeconfig: what it writes, and what it refuses."""

from __future__ import annotations

import base64
import os
import stat

import pytest

from partway.gateway.cli.main import main

PEM = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path, monkeypatch):
    """No test depends on this user's CA, token or gateway."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "PARTWAY_URL", "PARTWAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys, *flags):
    assert main(["kubeconfig", *map(str, flags)]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


def test_a_gateway_that_asks_nobody(capsys):
    assert printed(capsys) == (
        "apiVersion: v1\n"
        "kind: Config\n"
        "clusters:\n"
        "- name: partway\n"
        "  cluster:\n"
        '    server: "http://127.0.0.1:8090/kubernetes"\n'
        "contexts:\n"
        "- name: partway\n"
        "  context:\n"
        "    cluster: partway\n"
        '    namespace: "default"\n'
        "    user: partway\n"
        "current-context: partway\n"
        "users:\n"
        "- name: partway\n"
        "  user: {}\n"
    )


def test_a_gateway_with_tls_that_asks_who_asks(capsys, tmp_path, monkeypatch):
    ca, file = tmp_path / "ca.pem", tmp_path / "kubeconfig"
    ca.write_text(PEM)
    file.write_text("what was there")
    file.chmod(0o644)
    monkeypatch.setenv("PARTWAY_TOKEN", TOKEN)
    flags = ("--gateway", "https://gw.example:8443/behind/", "--ca", ca, "--namespace", "team")
    assert printed(capsys, *flags, "--output", file) == ""
    text = file.read_text()
    assert '    server: "https://gw.example:8443/behind/kubernetes"\n' in text
    assert f"    certificate-authority-data: {base64.b64encode(PEM.encode()).decode()}\n" in text
    assert f'  user:\n    token: "{TOKEN}"\n' in text
    assert '    namespace: "team"\n' in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.glob(".kube*")] == []


def test_the_local_ca_is_trusted_where_there_is_one(capsys, tmp_path):
    url = "https://localhost:8443"
    assert "certificate-authority-data" not in printed(capsys, "--gateway", url)
    folder = tmp_path / "home" / ".local" / "share" / "partway" / "tls"
    folder.mkdir(parents=True)
    (folder / "ca.pem").write_text(PEM)
    assert "certificate-authority-data" in printed(capsys, "--gateway", url)
    assert "certificate-authority-data" not in printed(capsys)


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        (
            ["--gateway", "gw.example"],
            2,
            "--gateway: 'gw.example' was given; it must be http://HOST:PORT",
        ),
        (
            ["--gateway", "http://[::1"],
            2,
            "--gateway: 'http://[::1' was given; it must be http://HOST",
        ),
        (
            ["--gateway", "http://h:1x"],
            2,
            "--gateway: 'http://h:1x' was given; it must be http://HOST",
        ),
        (
            ["--gateway", "http://h:65536"],
            2,
            "--gateway: 'http://h:65536' was given; it must be http:",
        ),
        (
            ["--gateway", "http://me:passwort@h"],
            2,
            "--gateway: the URL has an @, as after a user name",
        ),
        (
            ["--gateway", "https://me:pass/wort@h"],
            2,
            "--gateway: the URL has an @, as after a user name",
        ),
        (["--token", TOKEN], 2, "kubectl sends a token only over TLS"),
        (["--gateway", "https://h", "--token", "a b"], 2, "--token: it must be letters"),
        (["--namespace", "A"], 2, "--namespace: 'A' was given"),
        (["--gateway", "https://h", "--ca", "none.pem"], 1, "--ca: none.pem: No such file"),
        (["--gateway", "https://h", "--ca", os.devnull], 1, "must have certificates in PEM"),
        (["--output", "."], 2, "--output: '.' was given; it must be a file's path"),
        (["--output", f"{os.devnull}/file"], 1, f"--output: {os.devnull}/file: Not a directory"),
        (["--output", "a" * 300], 1, "File name too long"),
        (["--output", "no/such/folder"], 1, "--output: no/such/folder: No such file"),
    ],
)
def test_what_would_not_work_is_refused(capsys, tmp_path, monkeypatch, flags, status, said):
    monkeypatch.chdir(tmp_path)
    assert main(["kubeconfig", *flags]) == status
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("partway kubeconfig: ")
    assert said in errors
    assert "wort" not in errors
    assert list(tmp_path.glob("*")) == []
