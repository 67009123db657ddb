"""The intermediaries of ``partway serve --faults`` and ``--record``."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from partway.gateway.cli.process import descriptors_of
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import Settings
from partway.gateway.streams.container_leg import Dialler
from partway.gateway.workbench.intermediary.dialler import InterposingDialler
from partway.gateway.workbench.intermediary.faults import Rules
from partway.gateway.workbench.intermediary.faults_file import load_faults
from partway.gateway.workbench.recording.recorder import MAX_RECORDINGS, Recorder
from partway.log_lines import LogLine

log = logging.getLogger("partway.serve")


def intermediaries_of(options: argparse.Namespace, loaded: Settings) -> Intermediaries:
    """Make the intermediaries of ``--faults`` and ``--record``.

    Raises:
        SettingsError: the file of rules is not valid, or a flag would do nothing.
    """
    if options.no_payloads and options.record is None:
        raise SettingsError("--no-payloads was given alone; it works only with --record DIR")
    if loaded.workers > 1:
        flag = "--faults" if options.record is None else "--record"
        raise SettingsError(f"{flag} works only with one process: leave --workers out")
    return Intermediaries(loaded, options.faults, options.record, payloads=not options.no_payloads)


class Intermediaries:
    """Intermediaries before the containers, which spoil streams, record them, or both.

    Args:
        faults: the file of the rules by which streams are spoilt; None for none.
        record: the folder of the recordings; None for none.
        payloads: whether recordings keep the payloads of parts.

    Raises:
        SettingsError: the rules cannot be read, or one is for an endpoint that the settings lack.
    """

    def __init__(
        self, loaded: Settings, faults: Path | None, record: Path | None, *, payloads: bool
    ) -> None:
        self._faults = faults
        self._rules = () if faults is None else load_faults(faults)
        self._record = record
        self._payloads = payloads
        self._recorder: Recorder | None = None
        known = {endpoint.name for endpoint in loaded.endpoints}
        for number, rule in enumerate(self._rules, 1):
            if rule.endpoint is not None and rule.endpoint not in known:
                raise SettingsError(
                    f"{faults}: rule#{number}.endpoint: {rule.endpoint!r} was given; it must be "
                    f"the name of an endpoint: {', '.join(sorted(known)) or 'there are none'}"
                )
        # Each stream has two connections more, and a recorded stream has a file.
        files = 0 if record is None else min(loaded.max_streams, MAX_RECORDINGS)
        #: Most descriptors that the gateway's connections, and the recordings, may need at once.
        self.descriptors = descriptors_of(loaded, 3) + files

    def open(self) -> None:
        """Open the recordings' folder, and warn of faults; call it before :meth:`serve`.

        Raises:
            OSError: the folder cannot be made or written.
        """
        if self._record is not None:
            self._recorder = Recorder(self._record, self._payloads)
        if self._rules:
            line = "faults are on: streams are broken on purpose"
            log.warning(LogLine(line, file=str(self._faults)))

    async def serve(self, serve: Callable[[Dialler], Awaitable[int]]) -> int:
        """Serve with intermediaries before the containers.

        Args:
            serve: serves until its end, with the given dialler.

        Returns:
            The result of ``serve``.
        """
        observe = None if self._recorder is None else self._recorder.observe
        try:
            async with InterposingDialler(Rules(self._rules), observe) as dialler:
                return await serve(dialler)
        finally:
            if self._recorder is not None:
                await asyncio.to_thread(self._recorder.close)
