"""Certificates that are not the code under test's, and TLS's two ends in memory."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from partway.gateway.tls.context import TlsFiles

PEM = serialization.Encoding.PEM


def write_pair(
    directory: Path, name: str, *, kind: str = "ec", password: bytes | None = None, days: int = 30
) -> TlsFiles:
    """A certificate for localhost, signed by its own key, with a common name to tell it by."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if kind == "ec":
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    files = TlsFiles(directory / "own.pem", directory / "own-key.pem")
    files.certificate.write_bytes(certificate.public_bytes(PEM))
    files.key.write_bytes(
        key.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, encryption)
    )
    files.key.chmod(0o600)
    return files


def trusting(ca: Path) -> ssl.SSLContext:
    """A client that trusts one root, as strict as Python 3.13 is by default."""
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def careless() -> ssl.SSLContext:
    """A client that trusts whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Ends:
    """A client and a server of one connection, in memory; each call moves what is under way."""

    def __init__(
        self, server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost"
    ) -> None:
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._to_client, self._to_server, server_hostname=name)
        self.server = server.wrap_bio(self._to_server, self._to_client, server_side=True)

    def begin(self) -> None:
        """The client's first flight, which the server has not read yet."""
        try:
            self.client.do_handshake()
        except ssl.SSLWantReadError:
            return
        raise AssertionError("a handshake without a server")

    def shake(self) -> Ends:
        """Go through with the handshake; raises what one end raises."""
        unfinished = [self.client, self.server]
        for _ in range(8):
            for end in list(unfinished):
                try:
                    end.do_handshake()
                    unfinished.remove(end)
                except ssl.SSLWantReadError:
                    continue
            if not unfinished:
                return self
        raise AssertionError("the handshake comes to no end")

    def says(self, data: bytes) -> bytes:
        """What the client has of what the server writes."""
        self.server.write(data)
        return self.client.read(len(data))

    @property
    def shown(self) -> str:
        """The common name in the server's certificate, as the client has it."""
        der = self.client.getpeercert(binary_form=True)
        assert der
        (name,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
            NameOID.COMMON_NAME
        )
        return str(name.value)
