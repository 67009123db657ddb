"""Health of a model or an upstream, as answered on ``/ping`` (clauses 1.1-2, 1.1-3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from partway.container.errors import reason_of
from partway.container.limits import HEALTH_AGE, HEALTH_TIMEOUT
from partway.container.threads import in_thread
from partway.log_lines import LogLine

#: The last answer is valid for this many ages while a new one is fetched. So ``/ping`` need not
#: wait on a busy loop.
_FRESH = 2

_log = logging.getLogger("partway.container.health")


class Health:
    """The health of a model or an upstream: never older than ``HEALTH_AGE``, and never slow.

    Args:
        healthy: asks it; called on a thread, since it may block or hang.
        workers: returns why the model's workers cannot serve; None if they can.
        timeout: seconds for an answer; ``/ping`` has two in all.
        age: seconds for which an answer is valid.
        subject: the word for it in reasons and in the log.
        check: the word for ``healthy`` in reasons.
    """

    def __init__(
        self,
        healthy: Callable[[], bool],
        workers: Callable[[], str | None] = lambda: None,
        *,
        timeout: float = HEALTH_TIMEOUT,
        age: float = HEALTH_AGE,
        subject: str = "model",
        check: str = "healthy()",
    ) -> None:
        self._healthy = healthy
        self._workers = workers
        self._timeout = timeout
        self._age = age
        self._subject = subject
        self._check = check
        self._loop = asyncio.get_running_loop()
        self._asked = 0.0
        self._answer: asyncio.Future[bool] | None = None
        self._loading_since: float | None = self._loop.time()
        self._said: str | None = None

    @property
    def loaded(self) -> bool:
        return self._loading_since is None

    def set_loaded(self) -> None:
        """Note that loading is over: from now on ``healthy`` is asked."""
        self._loading_since = None

    async def trouble(self) -> str | None:
        """Return why it cannot serve; None if it can."""
        reason = await self._trouble()
        if reason != self._said:
            if reason is None:
                _log.info(LogLine(f"the {self._subject} is healthy"))
            else:
                _log.warning(LogLine("/ping answers 503", reason=reason))
            self._said = reason
        return reason

    async def _trouble(self) -> str | None:
        now = self._loop.time()
        if self._loading_since is not None:
            return f"the {self._subject} has been loading for {now - self._loading_since:.0f} s"
        reason = self._workers()
        if reason is not None:
            return reason
        answer, asked = self._answer, self._asked
        if answer is None or (answer.done() and now - asked >= self._age):
            self._asked = now
            self._answer = in_thread(self._healthy, name="partway-health")
            if answer is None or now - asked >= _FRESH * self._age:
                answer, asked = self._answer, now
        # All requests wait for the same answer, and at most until its timeout.
        left = asked + self._timeout - now
        if not answer.done() and left > 0:
            await asyncio.wait((answer,), timeout=left)
            await asyncio.sleep(0)  # on a busy loop the answer may come just now
        if not answer.done():
            waited = self._loop.time() - asked
            return f"the {self._subject}'s {self._check} has not returned for {waited:.1f} s"
        error = answer.exception()
        if error is not None:
            return reason_of(error)
        said = f"the {self._subject} says that it is not healthy"
        return None if answer.result() else said
