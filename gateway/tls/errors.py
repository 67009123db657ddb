"""What can be wrong with TLS, for those who have no certificate of their own."""

from __future__ import annotations


class TlsError(Exception):
    """A certificate or a key cannot be used; the message says which file, why, and what to do."""
