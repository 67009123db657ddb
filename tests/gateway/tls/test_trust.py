"""partway.gateway.tls.trust: whom the gateway believes that a container is who it says."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest

from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import TlsError, Trust
from tests.gateway.tls.peers import Ends, write_pair


def test_it_believes_whom_its_file_vouches_for_and_asks_for_http_1(tmp_path):
    files = LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC))
    ends = Ends(server_context(files), Trust(files.ca).context())
    ends.shake()
    assert ends.client.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("name", ["localhost", "elsewhere"])
def test_it_believes_nobody_else(tmp_path, name):
    files = LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC))
    (tmp_path / "other").mkdir()
    roots = write_pair(tmp_path / "other", "other").certificate if name == "localhost" else files.ca
    with pytest.raises(ssl.SSLCertVerificationError):
        Ends(server_context(files), Trust(roots).context(), name).shake()


def test_without_a_file_it_believes_the_systems_roots_alone(tmp_path):
    files = LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        Ends(server_context(files), Trust().context()).shake()


def test_a_file_is_read_once(tmp_path):
    ca = LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC)).ca
    assert Trust(ca).context() is Trust(ca).context()


@pytest.mark.parametrize(
    ("text", "what"),
    [(None, "cannot be read: No such file"), ("no PEM", "the file holds no certificate in PEM")],
)
def test_a_file_that_is_of_no_use(tmp_path, text, what):
    file = tmp_path / "roots.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TlsError, match=f"{file}: {what}"):
        Trust(file).context()
