"""TLS for clients without a certificate: the roots to trust, and the possible errors.

The gateway imports this module at its start, so nothing here needs cryptography.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from partway.gateway.network.dialling import client_tls
from partway.gateway.storage.disk_refusals import DiskRefusal


class TlsError(Exception):
    """A certificate or a key cannot be used; the message says which file, why, and what to do."""


class TlsUnavailable(TlsError, DiskRefusal):
    """The disk does not take a certificate now; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The roots by which a container's certificate is verified.

    Attributes:
        ca: a file of roots, PEM, in place of the system's (or ``SSL_CERT_FILE``'s); None for those.
    """

    ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the client's side of TLS: the certificate must be valid, and the host's.

        The file is read once per process, on the first call.

        Raises:
            TlsError: the file cannot be read, or holds no certificate.
        """
        return _context(self.ca)


@cache  # as many entries as an operator names files
def _context(ca: Path | None) -> ssl.SSLContext:
    try:
        return client_tls("http/1.1", ca)  # a WebSocket is an upgrade of HTTP/1.1
    except ssl.SSLError:  # an OSError too
        raise TlsError(f"{ca}: the file holds no certificate in PEM") from None
    except OSError as error:
        raise TlsError(f"{ca}: cannot be read: {error.strerror}") from None
