"""The trial of one check: its container, its probe and the record of its connections."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from partway.gateway.fleet.health.slow_start import SlowStart
from partway.gateway.fleet.launchers.process import ProcessEnd
from partway.gateway.fleet.limits import START_TIMEOUT
from partway.gateway.timing.clock import LoopClock
from partway.gateway.workbench.conformance.evidence import NotedExchange, shown
from partway.gateway.workbench.conformance.probes import Probe
from partway.gateway.workbench.conformance.raw_connection import (
    PATIENCE,
    HttpAnswer,
    Link,
    ask,
    link_to,
)
from partway.gateway.workbench.conformance.raw_stream import Closed, NotGranted, Peer, upgrade
from partway.gateway.workbench.conformance.started_container import Started
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.verdict import Broken, Untried
from partway.protocol.websocket.close_codes import TOO_BIG

#: Seconds for the answer to the Close at a stream's end; another check asks whether it comes.
_LEAVE_TIMEOUT = 0.3
_POLL = 0.05

#: Seconds to look for a match of a probe's ``expect`` in one reply.
MATCH_TIMEOUT = 1.0

_SAME_KIND = (
    "answer text with text and bytes with bytes: a library sends a str as text and bytes as "
    "binary (aiohttp: send_str, send_bytes)"
)
_ANSWER_SOON = (
    "answer GET and POST /ping with 200 once the model is loaded; if the model loads slowly, "
    "leave --fast out: the container then has eight minutes"
)
_FINISH = "end each message: its last frame, or its only one, has FIN=1"
#: The remedy for a library whose limit is below the size of a part (clause 1.3-3).
RAISE_LIMIT = (
    "raise your library's limit for messages, text included, to 16 MiB (aiohttp: one byte more): "
    "max_size, max_msg_size, maxPayload, buffers"
)
_WHOLE = (
    "read a frame up to its length, in as many reads as it takes, and write all of it: your "
    "buffers must not cut a message"
)
#: Bytes or characters from which a message may exceed some buffer.
_LONG = 4096
#: Bytes or characters of a message that a line shows.
_MOST_SHOWN = 32


@dataclass(slots=True)
class Trial:
    """One check of a container, while it is tried.

    Attributes:
        fast: whether long waits are cut short.
        exchanges: the records so far, one for each connection.
        cut: whether the container has ended a connection without a Close.
        on_slow: called while the container starts slowly, with the seconds since the wait began and
            the reason.
    """

    subject: Subject
    probe: Probe
    fast: bool = False
    exchanges: list[NotedExchange] = field(default_factory=list)
    cut: bool = False
    on_slow: Callable[[float, str], object] = lambda *_: None

    @property
    def process(self) -> Started:
        """The container's process.

        Raises:
            Untried: the container was not started here.
        """
        process = self.subject.process
        if process is None:
            raise Untried("Partway did not start this container: use --command or --image")
        return process

    def scaled(self, seconds: float, fast: float) -> float:
        """Choose the seconds to wait: ``fast`` with ``--fast``, ``seconds`` without."""
        return fast if self.fast else seconds

    @asynccontextmanager
    async def link(self, title: str) -> AsyncIterator[Link]:
        """Connect to the container; the connection is closed at the block's end."""
        exchange = NotedExchange(title)
        self.exchanges.append(exchange)
        async with link_to(self.subject.address, exchange) as link:
            try:
                yield link
            finally:
                self.cut |= link.ended and not link.said_close

    async def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float = PATIENCE,
        spelled: Callable[[str], str] = str,
    ) -> HttpAnswer:
        sent = {"Connection": "close", **(headers or {})}
        async with self.link(f"{method} {path}") as link:
            return await ask(link, method, path, sent, body, timeout, spelled)

    @asynccontextmanager
    async def slow_start(self) -> AsyncIterator[SlowStart]:
        """Report why the container is not ready, as the fleet does, until the block's end."""
        slow = SlowStart(LoopClock(), self.on_slow)
        watching = asyncio.create_task(slow.watch(self.subject.listening_trouble))
        try:
            yield slow
        finally:
            watching.cancel()
            await asyncio.wait((watching,))
        if not watching.cancelled():
            watching.result()  # raises a fault of our own

    async def until_ready(self, patience: float) -> None:
        """Ask ``/ping``, by GET and by POST, until the answer is 200.

        No other answer is final: a proxy answers 502 before its application, and a model's server
        404 before its routes are there.

        Raises:
            Broken: ``/ping`` is not answered 200 for ``patience`` seconds, or the container ended.
        """
        async with self.slow_start() as slow:
            said = await self._asked_until_ready(time.monotonic() + patience, slow)
        if said is not None:
            raise Broken(
                f"/ping did not answer with 200 within {patience:g} s; the last result: {said}",
                _ANSWER_SOON if self.fast and patience < START_TIMEOUT else None,
            )

    async def _asked_until_ready(self, deadline: float, slow: SlowStart) -> str | None:
        """The last answer to ``/ping`` before the deadline, in words; None for 200."""
        said = "nothing"
        while time.monotonic() < deadline:
            for method in ("GET", "POST"):
                try:
                    answer = await self.request(method, "/ping")
                except Broken as broken:
                    said = broken.what
                    continue
                if answer.status == 200:
                    return None
                said = f"{answer}, for {method}"
            slow.pinged(f"/ping: {said}")
            process = self.subject.process
            if process is not None and process.pid is None:
                raise Broken(
                    f"the process {ProcessEnd(process.status)}; the last result of /ping: {said}",
                    await process.death_remedy(),
                )
            self.exchanges.clear()  # only the last attempt is of interest
            await asyncio.sleep(_POLL)  # nothing signals that a model is loaded
        return said

    @asynccontextmanager
    async def stream(
        self,
        title: str = "a stream",
        target: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Peer]:
        """Open a stream to the model; at the block's end it is closed as clients do.

        Raises:
            Broken: the stream is not granted. Inside the block: the container ended a stream that
                must go on, or an expected answer did not come in time.
        """
        async with self.link(title) as link:
            where = target if target is not None else str(self.subject.target)
            found = await upgrade(link, where, headers or {})
            if isinstance(found, NotGranted):
                raise Broken(
                    f"the container answered the upgrade to {where} with {found.answer}, not with "
                    "101"
                )
            try:
                yield found
            except Closed as closed:
                raise Broken(f"the container ended the stream: {closed}") from None
            except TimeoutError:
                raise Broken("nothing came in time") from None
            if self.subject.answers_close:
                self.subject.answers_close = await found.leave(_LEAVE_TIMEOUT)
            else:
                await found.leave(0)

    async def answered(self, peer: Peer, what: str) -> None:
        """Ask the probe's question, and read the answer; messages begin with the moment ``what``.

        Raises:
            Broken: no answer came, or a wrong one.
        """
        probe = self.probe
        for message in probe.messages:
            await peer.say(message)
        if probe.echo:
            for message in probe.messages:
                await self.echoed(peer, message, what)
            return
        matched = not probe.expect
        came, last = 0, ""  # of the replies only the last is kept
        deadline = time.monotonic() + probe.timeout
        while came < probe.replies or not matched:
            try:
                reply = await peer.message(deadline - time.monotonic())
            except TimeoutError:
                raise Broken(
                    f"{what}: within {probe.timeout:g} s {_came(came, peer, last)}; the probe "
                    f"expects {probe.replies}"
                    + (f" and a match of {probe.expect!r}" if not matched else "")
                ) from None
            except Closed as closed:
                raise Broken(f"{what}: {closed}, after {came} of {probe.replies} replies") from None
            came, last = came + 1, _shown(reply)
            matched = matched or (isinstance(reply, str) and _matches(probe.expect, reply))

    async def echoed(
        self, peer: Peer, message: str | bytes, what: str, timeout: float = PATIENCE
    ) -> None:
        """Read the echo of a message.

        Raises:
            Broken: the message does not come back, or another message comes.
        """
        try:
            reply = await peer.message(timeout)
        except TimeoutError:
            remedy = _FINISH if peer.unfinished else None
            raise Broken(f"{what}: within {timeout:g} s {_came(0, peer)}", remedy) from None
        except Closed as closed:
            too_big = closed.close is not None and closed.close.code == TOO_BIG
            remedy = RAISE_LIMIT if too_big else None
            raise Broken(f"{what}: no answer came, but {closed}", remedy) from None
        if reply != message:
            cut = len(reply) < len(message) and len(message) >= _LONG
            remedy = _SAME_KIND if type(reply) is not type(message) else _WHOLE if cut else None
            raise Broken(f"{what}: {_difference(reply, message)}", remedy)


@asynccontextmanager
async def meanwhile(sending: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Send while the block reads, until the block's end.

    A container may answer before it has read everything. A check that sends megabytes before it
    reads would wait for a container that waits in turn. Errors of the sending are dropped, because
    the block's reads meet the same end of the connection.
    """
    task = asyncio.create_task(sending, name="sending")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _matches(pattern: str, reply: str) -> bool:
    """Whether a pattern has a match in a reply.

    Raises:
        Broken: the search is not done after :data:`MATCH_TIMEOUT`; some patterns take years.
    """
    # signals reach only the main thread
    if threading.current_thread() is not threading.main_thread():
        return re.search(pattern, reply) is not None

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError

    # re holds the interpreter, but checks for signals: nothing else stops it.
    before = signal.signal(signal.SIGALRM, late)
    left = signal.setitimer(signal.ITIMER_REAL, MATCH_TIMEOUT)
    try:
        return re.search(pattern, reply) is not None
    except TimeoutError:
        raise Broken(
            f"the search for {pattern!r} in a reply of {len(reply)} characters did not end within "
            f"{MATCH_TIMEOUT:g} s",
            "simplify the probe's pattern: expect a word, without a repetition inside a repetition",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)


def _came(replies: int, peer: Peer, last: str = "") -> str:
    if not replies:
        size = peer.unfinished
        return f"{size} bytes of a message came, and no frame with FIN" if size else "nothing came"
    begun = (
        f"; {peer.unfinished} bytes of another came, and no frame with FIN"
        if peer.unfinished
        else ""
    )
    return f"{replies} replies came, the last was {last}{begun}"


def _difference(reply: str | bytes, message: str | bytes) -> str:
    if type(reply) is type(message) and len(reply) != len(message):
        unit = "characters" if isinstance(reply, str) else "bytes"
        return (
            f"{_shown(reply)} came back ({len(reply)} {unit}), not {_shown(message)} "
            f"({len(message)} {unit})"
        )
    if type(reply) is type(message) and len(message) > _MOST_SHOWN:
        pairs = enumerate(zip(reply, message, strict=True))
        at = next(place for place, (came, said) in pairs if came != said)
        return (
            f"from place {at} of {len(message)} on {_shown(reply[at:])} came back, not "
            f"{_shown(message[at:])}"
        )
    return f"{_shown(reply)} came back, not {_shown(message)}"


def _shown(message: str | bytes) -> str:
    """Show a message in a line, with escapes beyond ASCII, where characters may look alike."""
    if isinstance(message, bytes):
        return f"binary {shown(message, _MOST_SHOWN)}"
    more = f"… ({len(message.encode())} bytes)" if len(message) > _MOST_SHOWN else ""
    return f"text {message[:_MOST_SHOWN]!a}{more}"
