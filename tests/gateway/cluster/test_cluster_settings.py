"""partway.gateway.cluster.cluster_settings: where the API server is."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.cluster.cluster_settings import ClusterNotFound, ClusterSettings, find_cluster

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in (("token", "abc"), ("ca.crt", "PEM"), ("namespace", "models\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_pod_has_all_of_it(account):
    assert find_cluster(environment=POD, account=account) == ClusterSettings(
        "https://10.0.0.1:443", "models", account / "token", account / "ca.crt"
    )


def test_an_address_of_ipv6(account):
    environment = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert find_cluster(environment=environment, account=account).server == "https://[fd00::1]:443"


def test_a_pod_without_an_account(tmp_path):
    found = find_cluster(environment=POD, account=tmp_path)
    assert found == ClusterSettings("https://10.0.0.1:443", "default", None, None)


def test_a_server_that_is_named_gets_no_secret_of_the_pod(account):
    found = find_cluster("https://example.com:6443/", environment=POD, account=account)
    assert found == ClusterSettings("https://example.com:6443", "models", None, None)


def test_single_values(account):
    token, ca = Path("/t"), Path("/c")
    found = find_cluster("http://[::1]:8001", token, ca, "other", environment={}, account=account)
    assert found == ClusterSettings("http://[::1]:8001", "other", token, ca)
    found = find_cluster("", token, None, "", environment=POD, account=account)
    assert (found.token_file, found.ca_file) == (token, account / "ca.crt")


@pytest.mark.parametrize("server", ["http://10.0.0.1", "HTTP://example.com:8001"])
def test_a_token_is_sent_in_clear_to_this_machine_alone(server, account):
    token = Path("/t")
    with pytest.raises(ClusterNotFound, match="was given with a token_file; it must be an https"):
        find_cluster(server, token, environment={}, account=account)
    assert find_cluster(server, environment={}, account=account).token_file is None
    for local in ("http://127.0.0.1:8001", "http://localhost:8001", "https://10.0.0.1"):
        assert find_cluster(local, token, environment={}, account=account).token_file == token


def test_no_cluster(tmp_path):
    with pytest.raises(ClusterNotFound, match=r"KUBERNETES_SERVICE_HOST .* are not set.*--server"):
        find_cluster(environment={}, account=tmp_path)


@pytest.mark.parametrize(
    "server",
    [
        *("example.com", "ftp://example.com", "https://", "https://a:b", "https://a/?x"),
        *("https://user@a", "https://[::1", "https://a/#x"),
    ],
)
def test_a_url_that_is_none(server, tmp_path):
    with pytest.raises(ClusterNotFound, match=r"^server: '.*' was given; it must be a URL such as"):
        find_cluster(server, environment=POD, account=tmp_path)
