"""The certificates of a local CA: the CA's own, and those of servers that it signs."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from partway.gateway.limits import (
    CA_VALIDITY_DAYS,
    CERTIFICATE_CLOCK_SKEW,
    CERTIFICATE_VALIDITY_DAYS,
)

_DAY: Final = timedelta(days=1)


def ca_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """Make a root that signs servers' certificates only (RFC 5280 §4.2.1.3, §4.2.1.9)."""
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Trust stores list certificates by name: the number distinguishes two machines' CAs.
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Partway"),
            x509.NameAttribute(
                NameOID.COMMON_NAME, f"Partway local CA {identifier.digest[:4].hex()}"
            ),
        ]
    )
    begin = now - timedelta(seconds=CERTIFICATE_CLOCK_SKEW)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + CA_VALIDITY_DAYS * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def server_certificate(
    key: ec.EllipticCurvePrivateKey,
    names: list[str],
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """Make a server's certificate for the names; it does not outlive the CA."""
    begin = now - timedelta(seconds=CERTIFICATE_CLOCK_SKEW)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Partway")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(min(begin + CERTIFICATE_VALIDITY_DAYS * _DAY, ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the names that a certificate carries, as :func:`certificate_name` writes them."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, found.value.get_values_for_type(x509.IPAddress))
    return [*found.value.get_values_for_type(x509.DNSName), *addresses]


def is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Say whether the CA's key has signed a certificate that names the CA."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, in PKCS #8 and without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
