"""partway.gateway.tls.certificates: what a CA's and a server's certificates say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from partway.gateway.limits import CA_VALIDITY_DAYS
from partway.gateway.tls.certificates import (
    ca_certificate,
    is_issued_by,
    key_pem,
    names_of,
    pem,
    server_certificate,
)

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = ["localhost", "*.example.org", "127.0.0.1", "::1"]


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def test_a_servers_certificate_has_its_names_and_its_issuer() -> None:
    ca_key, key = new_key(), new_key()
    ca = ca_certificate(ca_key, NOW)
    made = server_certificate(key, NAMES, ca, ca_key, NOW)
    read = x509.load_pem_x509_certificate(pem(made))
    assert names_of(read) == NAMES
    assert is_issued_by(read, ca)
    assert not is_issued_by(read, ca_certificate(new_key(), NOW))
    assert names_of(ca) == []


def test_it_does_not_outlive_the_ca() -> None:
    ca_key = new_key()
    ca = ca_certificate(ca_key, NOW)
    late = NOW + timedelta(days=CA_VALIDITY_DAYS - 1)
    made = server_certificate(new_key(), NAMES, ca, ca_key, late)
    assert made.not_valid_after_utc == ca.not_valid_after_utc


def test_a_key_is_read_back() -> None:
    key = new_key()
    read = load_pem_private_key(key_pem(key), password=None)
    assert read.public_key() == key.public_key()
