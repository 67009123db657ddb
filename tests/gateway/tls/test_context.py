"""The listener's TLS: what it offers, what it refuses, and its files changing under it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from partway.gateway.limits import CERTIFICATE_CHECK_INTERVAL, CERTIFICATE_RENEWAL_INTERVAL
from partway.gateway.tls.context import CertificateWatch, ReloadedContext, TlsFiles, server_context
from partway.gateway.tls.trust import TlsError
from tests.gateway.streams.fakes import FakeClock
from tests.gateway.tls.peers import Ends, careless, trusting, write_pair


@pytest.fixture
def files(tmp_path) -> TlsFiles:
    return write_pair(tmp_path, "first")


# --- What is offered -----------------------------------------------------------------------------


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["http/1.1", "h2"], "h2"),
        (["h2", "http/1.1"], "h2"),
        (["http/1.0"], None),
        (None, None),
    ],
)
def test_alpn(files, offered, chosen):
    client = careless()
    if offered is not None:
        client.set_alpn_protocols(offered)
    ends = Ends(server_context(files), client).shake()
    assert ends.client.selected_alpn_protocol() == chosen
    assert ends.server.selected_alpn_protocol() == chosen
    assert ends.client.version() == "TLSv1.3"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_versions_before_1_2_are_refused(files, version):
    client = careless()
    client.set_ciphers("ALL:@SECLEVEL=0")  # else OpenSSL's client would refuse them itself
    client.minimum_version = ssl.TLSVersion.TLSv1
    client.maximum_version = version
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        Ends(server_context(files), client).shake()


#: RFC 9113 §9.2.2: a server has the first. The second has no forward secrecy, the third no
#: authenticated encryption; both are in appendix A.
@pytest.mark.parametrize(
    ("suite", "taken"),
    [
        ("ECDHE-RSA-AES128-GCM-SHA256", True),
        ("ECDHE-RSA-CHACHA20-POLY1305", True),
        ("AES128-GCM-SHA256", False),
        ("ECDHE-RSA-AES128-SHA256", False),
        ("DHE-RSA-AES128-GCM-SHA256", False),
    ],
)
def test_suites_of_tls_1_2(tmp_path, suite, taken):
    client = careless()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(suite)
    ends = Ends(server_context(write_pair(tmp_path, "rsa", kind="rsa")), client)
    if taken:
        assert ends.shake().client.cipher()[0] == suite
        assert ends.client.compression() is None
    else:
        with pytest.raises(ssl.SSLError, match="NO_SHARED_CIPHER"):
            ends.shake()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_client_may_not_renegotiate(files):
    """RFC 9113 §9.2.1; openssl asks for it when it reads a line with an R.

    OpenSSL 3 refuses a client's by itself, OpenSSL 1.1.1 has to be told.
    """
    assert server_context(files).options & ssl.OP_NO_RENEGOTIATION
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        port = listening.getsockname()[1]

        def serve() -> None:
            connection, _ = listening.accept()
            connection.settimeout(20)
            with server_context(files).wrap_socket(connection, server_side=True) as tls:
                try:
                    while tls.recv(100):
                        pass
                except OSError:
                    return

        serving = threading.Thread(target=serve)
        serving.start()
        process = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2"],
            input=b"R\n",
            capture_output=True,
            timeout=20,
            check=False,
        )
        serving.join(20)
    assert b"RENEGOTIATING" in process.stdout + process.stderr
    assert b"no renegotiation" in process.stderr


# --- What is refused -----------------------------------------------------------------------------


def message(files: TlsFiles) -> str:
    with pytest.raises(TlsError) as caught:
        server_context(files)
    assert "PRIVATE KEY" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("which", ["certificate", "key"])
def test_a_file_that_is_missing_or_none(files, which, tmp_path):
    path = getattr(files, which)
    path.unlink()
    assert message(files) == f"{path}: there is no such file"
    path.mkdir()
    assert message(files) == f"{path}: cannot be read: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(files):
    files.key.chmod(0)
    assert message(files) == f"{files.key}: cannot be read: Permission denied"


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_not_pem(files, text):
    certificate = files.certificate.read_bytes()
    files.certificate.write_bytes(text)
    assert message(files) == f"{files.certificate}: the file is not a certificate in PEM"
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(text)
    assert message(files) == f"{files.key}: the file is not a private key in PEM"


def test_files_that_changed_places(files):
    assert "not a certificate" in message(TlsFiles(files.key, files.certificate))


def test_an_encrypted_key(tmp_path):
    files = write_pair(tmp_path, "own", password=b"secret")
    assert message(files).startswith(f"{files.key}: the key is encrypted; ")


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_key_of_another_certificate(tmp_path, files, kind):
    (tmp_path / "other").mkdir()
    other = write_pair(tmp_path / "other", "other", kind=kind)
    assert message(files._replace(key=other.key)) == (
        f"{other.key}: the file is not the key of the certificate {files.certificate}"
    )


def test_what_openssl_alone_refuses(tmp_path, files, monkeypatch):
    """A file that changes between our look and OpenSSL's is an error, and asks no terminal."""
    encrypted = write_pair(tmp_path, "own", password=b"secret").key.read_bytes()
    files = write_pair(tmp_path, "own")
    load = ssl.SSLContext.load_cert_chain

    def change_first(self, *args, **options):
        files.key.write_bytes(encrypted)
        assert options["password"] is not None  # else OpenSSL asks, where there is a terminal
        load(self, *args, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", change_first)
    assert message(files).startswith(f"{files.certificate}: OpenSSL refuses the certificate: ")


# --- Reloading -----------------------------------------------------------------------------------


def shown_by(context: ssl.SSLContext) -> set[str]:
    """What new handshakes get, with a server name and without, in either version of TLS."""
    old = careless()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    return {
        Ends(context, client, name).shake().shown
        for client in (careless(), old)
        for name in ("localhost", None)
    }


@pytest.mark.parametrize("kinds", [("ec", "ec"), ("ec", "rsa"), ("rsa", "ec")])
def test_new_handshakes_get_the_new_certificate_and_old_connections_go_on(tmp_path, kinds, caplog):
    files = write_pair(tmp_path, "first", kind=kinds[0], days=10)
    reloaded = ReloadedContext(files)
    ends_first = reloaded.ends
    context = reloaded.context
    assert not reloaded.reload_if_changed()
    assert shown_by(context) == {"first"}
    old = Ends(context, careless()).shake()
    half_open = Ends(context, careless())
    half_open.begin()

    caplog.set_level(logging.INFO, "partway.tls")
    write_pair(tmp_path, "second", kind=kinds[1], days=40)
    assert reloaded.reload_if_changed()
    assert reloaded.context is context
    assert shown_by(context) == {"second"}
    assert half_open.shake().shown == "second"
    assert old.says(b"still here") == b"still here"
    assert (reloaded.ends - ends_first).days == 30
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage() == (
        f"certificate reloaded file={files.certificate} "
        f"ends={reloaded.ends.isoformat(timespec='seconds')}"
    )
    assert not reloaded.reload_if_changed()

    write_pair(tmp_path, "third", kind=kinds[0])
    assert reloaded.reload_if_changed()
    assert shown_by(context) == {"third"}


@pytest.mark.clause("2.5-6")
def test_a_reloaded_context_offers_what_the_first_did(files, tmp_path):
    reloaded = ReloadedContext(files)
    write_pair(tmp_path, "second")
    assert reloaded.reload_if_changed()
    client = trusting(files.certificate)
    client.set_alpn_protocols(["http/1.1", "h2"])
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT  # a certificate that signs itself is no CA
    ends = Ends(reloaded.context, client).shake()
    assert (ends.shown, ends.client.selected_alpn_protocol()) == ("second", "h2")


def test_a_broken_pair_keeps_the_old_one_and_is_said_once(files, tmp_path, caplog):
    reloaded = ReloadedContext(files)
    good = files.key.read_bytes()
    files.key.write_text("garbled")
    for _ in range(3):
        assert not reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"first"}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.msg.event == "the certificate was not reloaded, the earlier one stays"
    assert record.msg.fields == {"reason": f"{files.key}: the file is not a private key in PEM"}
    files.key.unlink()
    for _ in range(3):
        assert not reloaded.reload_if_changed()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert caplog.messages[-1].endswith(f'{files.key}: there is no such file"')
    files.key.write_bytes(good)
    assert reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"first"}


def test_a_pair_replaced_one_file_at_a_time(files, tmp_path):
    reloaded = ReloadedContext(files)
    (tmp_path / "new").mkdir()
    new = write_pair(tmp_path / "new", "second")
    new.certificate.replace(files.certificate)
    assert not reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"first"}
    new.key.replace(files.key)
    assert reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"second"}


def test_another_file_of_the_same_size_and_time_is_another_file(files, tmp_path):
    """As tools leave them that set a file's time to its certificate's."""
    (tmp_path / "new").mkdir()
    new = write_pair(tmp_path / "new", "second")
    for path in (files.certificate, files.key, new.certificate, new.key):
        path.write_bytes(path.read_bytes().ljust(2000, b"\n"))
        os.utime(path, (1e9, 1e9))
    reloaded = ReloadedContext(files)
    new.certificate.replace(files.certificate)
    new.key.replace(files.key)
    assert reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"second"}


def test_links_are_followed_when_they_change(tmp_path):
    """As Kubernetes mounts a secret: the files are links through a link that is replaced."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_pair(tmp_path / name, name)
    data = tmp_path / "data"
    data.symlink_to("one")
    reloaded = ReloadedContext(TlsFiles(data / "own.pem", data / "own-key.pem"))
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(data)
    assert reloaded.reload_if_changed()
    assert shown_by(reloaded.context) == {"two"}


def test_a_broken_pair_at_the_start_is_an_error(files):
    files.key.unlink()
    with pytest.raises(TlsError, match="there is no such file"):
        ReloadedContext(files)


async def test_over_a_socket(files, tmp_path):
    """On either event loop a server goes on with one context over a reload."""
    reloaded = ReloadedContext(files)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def talk(client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        client[1].write(b"hi")
        return await client[0].readexactly(2)

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=reloaded.context)
    port = server.sockets[0].getsockname()[1]
    first = await asyncio.open_connection("127.0.0.1", port, ssl=careless())
    try:
        assert await talk(first) == b"hi"
        write_pair(tmp_path, "second", kind="rsa")
        assert reloaded.reload_if_changed()
        strict = ssl.create_default_context(cafile=files.certificate)
        strict.set_alpn_protocols(["h2"])
        second = await asyncio.open_connection("localhost", port, ssl=strict)
        try:
            assert second[1].get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            assert await talk(second) == b"hi"
        finally:
            second[1].close()
            await second[1].wait_closed()
        assert await talk(first) == b"hi"
    finally:
        first[1].close()
        await first[1].wait_closed()
        server.close()
        await server.wait_closed()


# --- The watch -----------------------------------------------------------------------------------


def test_a_watch_looks_now_and_then_until_it_is_stopped(files, tmp_path):
    clock = FakeClock()
    reloaded = ReloadedContext(files)
    watch = CertificateWatch(reloaded, clock)
    write_pair(tmp_path, "second")
    watch.start()
    watch.start()
    assert len(clock.armed) == 1
    clock.advance(CERTIFICATE_CHECK_INTERVAL - 0.1)
    assert shown_by(reloaded.context) == {"first"}
    clock.advance(0.2)
    assert shown_by(reloaded.context) == {"second"}
    write_pair(tmp_path, "third")
    clock.advance(CERTIFICATE_CHECK_INTERVAL)
    assert shown_by(reloaded.context) == {"third"}
    watch.stop()
    watch.stop()
    assert clock.armed == []
    write_pair(tmp_path, "fourth")
    clock.advance(10 * CERTIFICATE_CHECK_INTERVAL)
    assert shown_by(reloaded.context) == {"third"}


def test_a_watch_renews_and_shows_what_was_renewed(files, tmp_path, caplog):
    clock = FakeClock()
    reloaded = ReloadedContext(files)
    asked = []

    def renew() -> None:
        asked.append(clock.time())
        if len(asked) == 1:
            raise TlsError("no room")
        write_pair(tmp_path, "renewed")

    watch = CertificateWatch(reloaded, clock, renew)
    watch.start()
    clock.advance(CERTIFICATE_RENEWAL_INTERVAL - CERTIFICATE_CHECK_INTERVAL)
    assert asked == []
    clock.advance(2 * CERTIFICATE_CHECK_INTERVAL)
    assert len(asked) == 1
    assert caplog.messages == ['the certificate was not renewed reason="no room"']
    clock.advance(CERTIFICATE_RENEWAL_INTERVAL)
    assert len(asked) == 2
    assert shown_by(reloaded.context) == {"renewed"}
    watch.stop()


def test_a_certificate_that_has_ended_is_shown_with_a_warning(tmp_path, caplog):
    ReloadedContext(write_pair(tmp_path, "old", days=-1))
    assert "clients refuse the certificate" in caplog.text


@pytest.mark.parametrize(
    ("mode", "verb"), [(0o644, "read"), (0o622, "write"), (0o660, "read and write")]
)
def test_a_key_that_others_can_use_is_used_with_a_warning(tmp_path, caplog, mode, verb):
    files = write_pair(tmp_path, "open")
    files.key.chmod(mode)
    ReloadedContext(files)
    assert f"users other than its owner can {verb} the key: chmod 600" in caplog.text
