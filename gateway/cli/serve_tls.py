"""The certificate of ``partway serve --tls-port``: read, or made and signed, and watched."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.gateway import Gateway
from partway.gateway.limits import CERTIFICATE_LOCK_TIMEOUT
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.tls.context import CertificateWatch, ReloadedContext, TlsFiles
from partway.gateway.tls.local_ca import LocalCa, default_directory, default_names
from partway.gateway.tls.trust import TlsError, TlsUnavailable
from partway.log_lines import LogLine

log = logging.getLogger("partway.serve")


class Tls:
    """The certificate of the TLS port: the operator's, or the local CA's.

    Attributes:
        reloaded: the TLS context, which follows the certificate's files.
        watch: renews the certificate in time.
        authority: the path of the local CA's certificate; empty where the user gave a certificate.

    Args:
        clock: the clock of the loop that watches the certificate; another thread may make this
            object.
        patience: seconds to wait, blocking, while another process writes a certificate.

    Raises:
        SettingsError: a name in ``tls_names`` is neither a DNS name nor an IP address.
        TlsUnavailable: the disk does not take the certificate now.
        TlsError: the certificate or its key cannot be read or made; the message says why.
    """

    def __init__(
        self, loaded: Settings, clock: Clock, patience: float = CERTIFICATE_LOCK_TIMEOUT
    ) -> None:
        if loaded.tls_cert is not None and loaded.tls_key is not None:
            files = TlsFiles(loaded.tls_cert, loaded.tls_key, None)
            renew = None
        else:
            ca = LocalCa(default_directory(os.environ))
            names = [*default_names(loaded.host), *sorted(loaded.tls_names)]

            def renew() -> TlsFiles:
                # Called from the loop, which must not block; it is tried again an hour later.
                return ca.ensure(names, datetime.now(UTC), patience=0)

            try:
                files = _made_or_present(ca, names, patience)
            except ValueError as error:
                raise SettingsError(f"tls_names: {error}") from None
        self.reloaded = ReloadedContext(files)
        self.watch = CertificateWatch(self.reloaded, clock, renew)
        self.authority = "" if files.ca is None else str(files.ca)

    def follow(self, gateway: Gateway, up: AsyncExitStack) -> None:
        """Renew the certificate in time, and expose its end as a metric.

        Args:
            up: ends the watch.
        """
        gateway.process_metrics.watch_certificate(lambda: self.reloaded.ends.timestamp())
        self.watch.start()
        up.callback(self.watch.stop)


async def open_late(gateway: Gateway, up: AsyncExitStack) -> tuple[Tls, int]:
    """Listen on the TLS port once the disk takes its certificate; return the port's number too.

    Args:
        up: ends the certificate's watch.

    Raises:
        TlsUnavailable: the disk does not take the certificate yet.
        TlsError: the certificate cannot be used, or the port cannot be opened.
    """
    clock = LoopClock()
    tls = await on_thread(clock, lambda _: Tls(gateway.settings, clock, patience=0))
    try:
        port = await gateway.listen_with_tls(tls.reloaded.context)
    except OSError as error:
        raise TlsError(f"cannot listen on {error.filename}: {error.strerror}") from None
    tls.follow(gateway, up)
    return tls, port


def _made_or_present(ca: LocalCa, names: Sequence[str], patience: float) -> TlsFiles:
    """The local CA's certificate with these names; the old one where the disk takes no new one."""
    now = datetime.now(UTC)
    try:
        return ca.ensure(names, now, patience)
    except TlsUnavailable as error:
        present = ca.present(now)
        if present is None:
            raise
        log.warning(LogLine("the certificate is used as it is", reason=str(error)))
        return present
