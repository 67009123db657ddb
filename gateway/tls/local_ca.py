"""The user's own certificate authority, and the gateway's certificate that it signs.

It is for a laptop, where no other authority vouches for ``localhost``. It is made once, and clients
must be told to trust it. A directory holds ``ca.pem``, ``ca-key.pem``, ``server.pem`` and
``server-key.pem``. The server's key stays when its certificate is made anew, so that one file
changes and the pair fits at every moment.
"""

from __future__ import annotations

import fcntl
import ipaddress
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from partway.gateway.limits import (
    AMAZONAWS_COM_REGION,
    CERTIFICATE_LOCK_TIMEOUT,
    CERTIFICATE_RENEWAL_DAYS,
    MAX_CERTIFICATE_NAMES,
)
from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.files import replace_file, user_data_folder
from partway.gateway.tls.certificates import (
    ca_certificate,
    is_issued_by,
    key_pem,
    names_of,
    pem,
    server_certificate,
)
from partway.gateway.tls.context import TlsFiles, read_if_there
from partway.gateway.tls.trust import TlsError, TlsUnavailable

#: A DNS name as certificates carry it (RFC 5280 §4.2.1.6, RFC 1123 §2.1), or ``*.`` and one (RFC
#: 9525 §6.3). Labels of 63 characters, 253 in all.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")

#: Seconds between tries of a lock that another process holds.
_LOCK_RETRY = 0.02

_DAY = timedelta(days=1)


# --- Names ---------------------------------------------------------------------------------------


def certificate_name(text: str) -> str:
    """Return a DNS name or an IP address as a certificate carries it.

    Raises:
        ValueError: the text is neither; the message says what it must be.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        name = text.lower().removesuffix(".")
        # Browsers take a last label of digits for an address (WHATWG URL), which is invalid here.
        if _DNS_NAME.fullmatch(name) is None or name.rpartition(".")[2].isdigit():
            raise ValueError(
                f"{text!r} was given; it must be an IP address or a DNS name "
                "(letters, digits, hyphens and dots; punycode for others)"
            ) from None
        return name
    if address.is_unspecified or getattr(address, "scope_id", None) is not None:
        raise ValueError(
            f"{text!r} was given; it must be the address of one machine, as clients use it, "
            "without a zone (such as %eth0)"
        )
    return str(address)


def default_names(host: str) -> list[str]:
    """Return the names that clients use for a gateway on this machine.

    Args:
        host: the host that the gateway listens on; an address that stands for every address of the
            machine adds no name.
    """
    names = ["localhost", "127.0.0.1", "::1"]
    for text in (socket.gethostname(), host):
        with suppress(ValueError):  # a machine's name may be invalid in DNS
            names.append(certificate_name(text))
    return list(dict.fromkeys(names))


def aws_names(region: str) -> list[str]:
    """Return SageMaker's host names, for clients that cannot be given another host (clause 2.5-6).

    Raises:
        ValueError: the text is not a region's name, or that region's hosts have other names.
    """
    if AMAZONAWS_COM_REGION.fullmatch(region) is None:
        raise ValueError(
            f"region: {region!r} was given; it must be an AWS region with hosts in amazonaws.com"
        )
    return [f"runtime.sagemaker.{region}.amazonaws.com"]


def default_directory(environment: Mapping[str, str]) -> Path:
    """Return where this user's local CA is.

    Raises:
        TlsError: the user has no home directory.
    """
    data = user_data_folder(environment)
    if data is None:
        raise TlsError(
            "no directory for the local CA: set HOME or XDG_DATA_HOME, "
            "or give a certificate and a key"
        )
    return data / "tls"


# --- The authority -------------------------------------------------------------------------------


class LocalCa:
    """The local CA in a directory, whether it exists yet or not.

    Args:
        directory: the directory of this CA alone; made if necessary, for its owner only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = directory / "ca.pem"
        self._ca_key = directory / "ca-key.pem"
        self._files = TlsFiles(directory / "server.pem", directory / "server-key.pem", self._ca)

    def ensure(
        self,
        names: Iterable[str],
        now: datetime,
        patience: float = CERTIFICATE_LOCK_TIMEOUT,
    ) -> TlsFiles:
        """Provide a certificate that is valid for a while and carries the names.

        Names that the certificate had before stay. If there is nothing to do, nothing is written or
        locked, and the CA's key is not needed. Many processes may call this at once.

        Args:
            names: DNS names and IP addresses.
            now: the time, with a time zone.
            patience: seconds to wait, blocking, while another process writes.

        Raises:
            TlsUnavailable: the disk does not take a file.
            TlsError: a file cannot be read or written, or holds something else; others may use or
                replace a key; the CA has expired; there are too many names.
            ValueError: a name is neither a DNS name nor an IP address.
        """
        wanted = [certificate_name(name) for name in names]
        self._check_private()
        if not self._is_done(wanted, now):
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise self._not_written(self._directory, error) from None
            with self._locked(patience):
                if not self._is_done(wanted, now):  # nor by another process meanwhile
                    self._make(wanted, now)
        return self._files

    def present(self, now: datetime) -> TlsFiles | None:
        """Return the current certificate if it is valid now: it may end soon, and lack names.

        Raises:
            TlsError: as :meth:`ensure`.
        """
        pair = self._pair(now)
        return self._files if pair and now < pair[1].not_valid_after_utc else None

    def _is_done(self, wanted: list[str], now: datetime) -> bool:
        pair = self._pair(now)
        if pair is None:
            return False
        ca, server = pair
        end = server.not_valid_after_utc
        soon = end - now < CERTIFICATE_RENEWAL_DAYS * _DAY and end < ca.not_valid_after_utc
        return not soon and set(wanted) <= set(names_of(server))

    def _pair(self, now: datetime) -> tuple[x509.Certificate, x509.Certificate] | None:
        """Return the certificates of the CA and of the server, if they and the server's key fit."""
        ca = self._certificate(self._ca)
        server = self._certificate(self._files.certificate)
        if ca is None or server is None:
            return None
        self._check_valid(ca, now)
        key = self._key(self._files.key)
        fits = (
            key is not None
            and key.public_key() == server.public_key()
            and is_issued_by(server, ca)
            and server.not_valid_before_utc <= now
        )
        return (ca, server) if fits else None

    def _make(self, wanted: list[str], now: datetime) -> None:
        """Write the missing files, a key before its certificate: a key alone does no harm."""
        ca, ca_key = self._authority(now)
        self._check_valid(ca, now)
        server = self._certificate(self._files.certificate)
        names = list(dict.fromkeys([*(names_of(server) if server else ()), *wanted]))
        if len(names) > MAX_CERTIFICATE_NAMES:
            raise TlsError(
                f"{self._files.certificate}: the certificate would carry {len(names)} names, and "
                f"at most {MAX_CERTIFICATE_NAMES} are allowed; remove the file, so that the new "
                "certificate has only the requested names"
            )
        key = self._key(self._files.key)
        if key is None:
            key = ec.generate_private_key(ec.SECP256R1())
            self._write(self._files.key, key_pem(key), 0o600)
        certificate = server_certificate(key, names, ca, ca_key, now)
        self._write(self._files.certificate, pem(certificate), 0o644)

    def _authority(self, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Return the CA's certificate and key; make them if they are missing."""
        ca = self._certificate(self._ca)
        key = self._key(self._ca_key)
        if ca is None:
            if key is None:
                key = ec.generate_private_key(ec.SECP256R1())
                self._write(self._ca_key, key_pem(key), 0o600)
            ca = ca_certificate(key, now)
            self._write(self._ca, pem(ca), 0o644)
        elif key is None:
            raise TlsError(
                f"{self._ca_key}: the file is missing, so nothing can be signed; put it back, or "
                f"remove {self._ca} for a new CA, which clients must then be told to trust"
            )
        elif key.public_key() != ca.public_key():
            raise TlsError(
                f"{self._ca_key}: the file is not the key of {self._ca}; put the right one back, "
                "or remove both for a new CA, which clients must then be told to trust"
            )
        return ca, key

    def _check_valid(self, ca: x509.Certificate, now: datetime) -> None:
        if now >= ca.not_valid_after_utc:
            raise TlsError(
                f"{self._ca}: the CA ended on {ca.not_valid_after_utc:%Y-%m-%d}; remove it and "
                f"{self._ca_key} for a new one, which clients must then be told to trust"
            )

    def _check_private(self) -> None:
        """Verify that only the owner can sign for this CA, even if nothing is to be signed."""
        _refuse_if_shared(self._ca_key)
        mode = _mode_of(self._directory)
        if mode & 0o022:
            raise TlsError(
                f"{self._directory}: users other than its owner could put their own CA here "
                f"(mode {mode:04o}); chmod 700 it, and remove its files if that may have happened"
            )

    # --- Files -----------------------------------------------------------------------------------

    def _certificate(self, path: Path) -> x509.Certificate | None:
        data = read_if_there(path)
        if data is None:
            return None
        try:
            certificate = x509.load_pem_x509_certificate(data)
            certificate.public_key(), certificate.extensions  # parsed on access
        except (ValueError, UnsupportedAlgorithm):
            raise TlsError(
                f"{path}: the file is not a certificate in PEM; "
                "put the right one back, or remove it"
            ) from None
        return certificate

    def _key(self, path: Path) -> ec.EllipticCurvePrivateKey | None:
        data = read_if_there(path)
        if data is None:
            return None
        _refuse_if_shared(path)
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TlsError(
                f"{path}: the file is not an unencrypted elliptic curve key in PEM; "
                "put the right one back, or remove it"
            )
        return key

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        try:
            replace_file(path, data, mode)
        except OSError as error:
            raise self._not_written(path, error) from None

    @contextmanager
    def _locked(self, patience: float) -> Iterator[None]:
        """Lock other processes out of the directory; the kernel frees the lock of a dead one."""
        path = self._directory / "lock"
        try:
            file = path.open("ab")
        except OSError as error:
            raise self._not_written(path, error) from None
        with file:
            tries_until = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > tries_until:
                        raise TlsError(
                            f"{path}: another process has held this lock for "
                            f"{patience:g} s; try again when that process has ended"
                        ) from None
                    time.sleep(_LOCK_RETRY)
                except OSError as error:
                    raise self._not_written(path, error) from None
            yield

    def _not_written(self, path: Path, error: OSError) -> TlsError:
        kind = TlsUnavailable if is_disk_refusal(error) else TlsError
        return kind(
            f"{path}: cannot be written: {error.strerror}; "
            "use a directory that this user owns, or give a certificate and a key"
        )


def _refuse_if_shared(path: Path) -> None:
    """Refuse a key that others than its owner may read or write, if it exists."""
    mode = _mode_of(path)
    if mode & 0o077:
        raise TlsError(
            f"{path}: users other than its owner could use this key (mode {mode:04o}); "
            "chmod 600 it, or remove it if another user may have read it"
        )


def _mode_of(path: Path) -> int:
    """Return the permission bits of a file; 0 if they cannot be read."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
