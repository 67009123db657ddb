"""The listener's side of TLS: a context made from a certificate and its key, and its reload.

HTTP/2 demands more of TLS 1.2 than TLS itself does (RFC 9113 §9.2); the context does so for all.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from partway.gateway.limits import CERTIFICATE_CHECK_INTERVAL, CERTIFICATE_RENEWAL_INTERVAL
from partway.gateway.storage.files import others_may
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.tls.trust import TlsError
from partway.log_lines import LogLine

log = logging.getLogger("partway.tls")

#: Protocols offered in ALPN, in the order in which they are chosen (clause 2.5-6).
ALPN = ("h2", "http/1.1")

#: TLS 1.2 with ephemeral keys and authenticated encryption only, which excludes all of RFC 9113's
#: appendix A. TLS 1.3 has no other suites.
_TLS_1_2_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"

#: Modification time in nanoseconds, size and inode of a file; None if there is no such file.
_Look = tuple[int, int, int] | None


class TlsFiles(NamedTuple):
    """The files of a certificate, in PEM.

    Attributes:
        certificate: file of the server's certificate, then those between it and the root, if any.
        key: file of the certificate's private key, not encrypted.
        ca: file of the local CA's certificate, which clients must trust; None if another authority
            signed the server's.
    """

    certificate: Path
    key: Path
    ca: Path | None = None


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Make a context for servers that offers HTTP/2 and HTTP/1.1.

    A client whose ALPN names neither, or that sends no ALPN, is accepted: its first bytes show what
    it speaks (clause 2.5-6).

    Raises:
        TlsError: a file is missing, cannot be read, is not PEM or is encrypted, or the key is not
            the certificate's.
    """
    return _load(files)[0]


def read_if_there(path: Path) -> bytes | None:
    """Return the bytes of a file, None if there is no such file.

    Raises:
        TlsError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TlsError(f"{path}: cannot be read: {error.strerror}") from None


def _read(path: Path) -> bytes:
    data = read_if_there(path)
    if data is None:
        raise TlsError(f"{path}: there is no such file")
    return data


def _load(files: TlsFiles) -> tuple[ssl.SSLContext, datetime]:
    """Return the context, and when its certificate ends.

    The files are parsed before OpenSSL gets them, whose errors name neither file nor fault.
    """
    try:
        certificate = x509.load_pem_x509_certificates(_read(files.certificate))[0]
    except ValueError:
        raise TlsError(f"{files.certificate}: the file is not a certificate in PEM") from None
    try:
        key = serialization.load_pem_private_key(_read(files.key), password=None)
    except TypeError:  # cryptography raises it for a missing password
        raise TlsError(
            f"{files.key}: the key is encrypted; "
            "store it without a password, readable only by the gateway's user"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise TlsError(f"{files.key}: the file is not a private key in PEM") from None
    try:
        fits = certificate.public_key() == key.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise TlsError(
            f"{files.certificate}: the certificate's key is of an unknown kind"
        ) from None
    if not fits:
        raise TlsError(
            f"{files.key}: the file is not the key of the certificate {files.certificate}"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_TLS_1_2_SUITES)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION  # RFC 9113 §9.2.1
    context.set_alpn_protocols(list(ALPN))
    try:
        # Without a password OpenSSL would ask the terminal for one, should the file have changed.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or type(error).__name__
        raise TlsError(f"{files.certificate}: OpenSSL refuses the certificate: {reason}") from None
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        log.warning(
            LogLine(
                "clients refuse the certificate: it is not valid now",
                file=str(files.certificate),
                begins=certificate.not_valid_before_utc.isoformat(),
                ends=certificate.not_valid_after_utc.isoformat(),
            )
        )
    if verb := others_may(files.key.stat().st_mode):
        log.warning(
            LogLine(
                f"users other than its owner can {verb} the key: chmod 600", file=str(files.key)
            )
        )
    return context, certificate.not_valid_after_utc


class ReloadedContext:
    """The listener's context, which follows changes of the files.

    Attributes:
        context: to be given to the listener, once.

    Raises:
        TlsError: as :func:`server_context`.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._look()
        self.context, self._ends = _load(files)

    @property
    def ends(self) -> datetime:
        """When the certificate that new handshakes get ends, in UTC."""
        return self._ends

    def reload_if_changed(self) -> bool:
        """Use the files' certificate for new handshakes if the files have changed.

        Connections that are open, or in the middle of their handshake, go on. If the files cannot
        be used, the certificate stays, and each change leaves one error in the log.

        Returns:
            Whether new handshakes get another certificate from now on.
        """
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen  # taken before the read: a change meanwhile shows later
        try:
            fresh, self._ends = _load(self._files)
        except TlsError as error:
            stays = "the certificate was not reloaded, the earlier one stays"
            log.error(LogLine(stays, reason=str(error)))  # noqa: TRY400
            return False

        # Each handshake moves to the fresh context, even without a server name. Loading the pair
        # into the listener's own context would not do: OpenSSL keeps a certificate for each kind of
        # key, and would still show the old one after a change from ECDSA to RSA.
        def use_fresh(handshake: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            handshake.context = fresh

        self.context.sni_callback = use_fresh
        log.info(
            LogLine(
                "certificate reloaded",
                file=str(self._files.certificate),
                ends=self._ends.isoformat(timespec="seconds"),
            )
        )
        return True

    def _look(self) -> tuple[_Look, _Look]:
        return _look(self._files.certificate), _look(self._files.key)


def _look(path: Path) -> _Look:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class CertificateWatch:
    """Checks a certificate's files regularly, and has a new certificate made in time.

    Args:
        renew: called every ``CERTIFICATE_RENEWAL_INTERVAL``, for a certificate that the gateway
            makes itself: :meth:`LocalCa.ensure`. May raise :class:`TlsError`, which is logged.
    """

    def __init__(
        self,
        reloaded: ReloadedContext,
        clock: Clock,
        renew: Callable[[], object] | None = None,
    ) -> None:
        self._reloaded = reloaded
        self._clock = clock
        self._renew = renew
        self._renew_at = clock.time() + CERTIFICATE_RENEWAL_INTERVAL
        self._timer: Timer | None = None

    def start(self) -> None:
        """Check every ``CERTIFICATE_CHECK_INTERVAL`` seconds from now on."""
        if self._timer is None:
            self._timer = self._clock.call_later(CERTIFICATE_CHECK_INTERVAL, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = self._clock.call_later(CERTIFICATE_CHECK_INTERVAL, self._check)
        if self._renew is not None and self._clock.time() >= self._renew_at:
            self._renew_at = self._clock.time() + CERTIFICATE_RENEWAL_INTERVAL
            try:
                self._renew()
            except TlsError as error:
                log.error(LogLine("the certificate was not renewed", reason=str(error)))  # noqa: TRY400
        self._reloaded.reload_if_changed()
