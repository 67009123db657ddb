"""Whether the API server answers: the watches of one that hangs stay open, and tell nothing."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Final

from partway.gateway.cluster.answers import ClusterAway, ClusterError
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.limits import SERVER_LOOK
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")

#: An API group of every server. Each account may ask for its versions.
_GROUP: Final = "apps"


class ServerPresence:
    """Asks the API server now and then.

    Attributes:
        trouble: why it has not answered; empty while it does.
        away_at: when it was last away, by the clock.
    """

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self.trouble = ""
        self.away_at = -math.inf
        self._server = server
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask until :meth:`aclose`; a second call has no effect."""
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="looks at the API server")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _look(self) -> None:
        while True:
            await pause(self._clock, SERVER_LOOK)
            try:
                await self._server.versions(_GROUP)
            except ClusterAway as error:
                self._note(str(error))
            except ClusterError:  # a refusal is an answer
                self._note("")
            except Exception:  # of a form that nobody foresaw: look again
                log.exception("a look at the API server has failed")
            else:
                self._note("")

    def _note(self, trouble: str) -> None:
        if trouble or self.trouble:
            self.away_at = self._clock.time()
        if trouble and not self.trouble:
            log.warning(LogLine("the API server does not answer", reason=trouble))
        elif self.trouble and not trouble:
            log.info("the API server answers again")
        self.trouble = trouble
