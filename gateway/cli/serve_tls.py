"""The certificate of ``partway serve --tls-port``: read, or made and signed, and watched."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from partway.gateway.clock import LoopClock
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings import Settings
from partway.gateway.tls.context import CertificateWatch, ReloadedContext, TlsFiles
from partway.gateway.tls.local_ca import LocalCa, default_directory, default_names


class Tls:
    """The certificate of the TLS port: the operator's, or the local CA's.

    Attributes:
        reloaded: the TLS context, which follows the certificate's files.
        watch: sees to the certificate's renewal.
        authority: the path of the local CA's certificate; empty where the user gave a certificate.

    Raises:
        SettingsError: a name in ``tls_names`` is neither a DNS name nor an IP address.
        TlsError: the certificate or its key cannot be read or made; the message says why.
    """

    def __init__(self, loaded: Settings) -> None:
        if loaded.tls_cert is not None and loaded.tls_key is not None:
            files = TlsFiles(loaded.tls_cert, loaded.tls_key, None)
            renew = None
        else:
            ca = LocalCa(default_directory(os.environ))
            names = [*default_names(loaded.host), *sorted(loaded.tls_names)]

            def renew() -> TlsFiles:
                # Called from the loop, which waits for nobody; an hour later it is tried again.
                return ca.ensure(names, datetime.now(UTC), patience=0)

            try:
                files = ca.ensure(names, datetime.now(UTC))
            except ValueError as error:
                raise SettingsError(f"tls_names: {error}") from None
        self.reloaded = ReloadedContext(files)
        self.watch = CertificateWatch(self.reloaded, LoopClock(), renew)
        self.authority = "" if files.ca is None else str(files.ca)
