"""An upgrade: the supervisor goes on with new code, and no stream is cut."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from partway.gateway.workers.limits import UPGRADE_CHECK_TIMEOUT
from partway.gateway.workers.supervisor_upgrade import command_line
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")

#: Characters of the reason why the new code refuses its settings.
_MOST_OF_REASON: Final = 4000


class GatewayUpgrade:
    """Checks the new code with its settings, and then hands over to it.

    Args:
        refusal: says why no upgrade may begin now; empty if one may.
        hand_over: ends this process, which the supervisor replaces by the new code's.
        on_refusal: called with the reason why an upgrade is refused.
    """

    def __init__(
        self,
        refusal: Callable[[], str],
        hand_over: Callable[[], Awaitable[None]],
        on_refusal: Callable[[str], None],
    ) -> None:
        self._refusal = refusal
        self._hand_over = hand_over
        self._on_refusal = on_refusal
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Upgrade in the background, unless an upgrade is under way."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="upgrade")

    async def _run(self) -> None:
        log.info("an upgrade begins")
        try:
            await self._checked_and_handed_over()
        except Exception:  # anything: the gateway serves on
            log.exception("the upgrade has failed")

    async def _checked_and_handed_over(self) -> None:
        # The second look is for an end that has come during the check.
        reason = self._refusal() or await self._checked() or self._refusal()
        if reason:
            line = "the upgrade is refused, and nothing has changed"
            log.error(LogLine(line, reason=reason[-_MOST_OF_REASON:]))
            self._on_refusal(reason[-_MOST_OF_REASON:])
            return
        log.info("the new code accepts its settings; this process hands over to it")
        for each in (sys.stdout, sys.stderr):
            each.flush()
        await self._hand_over()

    async def _checked(self) -> str:
        """Run the command line with ``--check``; return why it fails, or nothing."""
        try:
            check = await asyncio.create_subprocess_exec(
                *(*command_line(), "--check"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return f"{command_line()[0]}: {error.strerror}"
        try:
            async with asyncio.timeout(UPGRADE_CHECK_TIMEOUT):
                _, errors = await check.communicate()
        except TimeoutError:
            return f"its check did not end within {UPGRADE_CHECK_TIMEOUT:.0f} s"
        finally:
            if check.returncode is None:
                check.kill()
                await check.wait()
        said = errors.decode(errors="replace").strip()
        return "" if check.returncode == 0 else said or f"exit status {check.returncode}"
