"""What can be wrong with TLS, for those who have no certificate of their own."""

from __future__ import annotations

from partway.gateway.storage.disk_refusals import DiskRefusal


class TlsError(Exception):
    """A certificate or a key cannot be used; the message says which file, why, and what to do."""


class TlsUnavailable(TlsError, DiskRefusal):
    """The disk does not take a certificate now; a later try may succeed."""
