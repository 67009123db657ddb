"""The log lines of an endpoint's instances, as the admin socket sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from partway.gateway.fleet.container_ids import instance_of
from partway.gateway.fleet.output.log_files import INSTANCE_ID, log_files
from partway.gateway.fleet.output.log_tail import LogTail
from partway.gateway.fleet.output.reader import last_printed
from partway.gateway.limits import (
    LOG_FOLLOW_INTERVAL,
    LOG_LINES,
    MAX_LOG_LINES,
    MAX_LOGS_TOGETHER,
)
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import set_or_over
from partway.protocol.errors import InputValidationError


@dataclass(frozen=True, slots=True)
class LogsAsked:
    """A request for the lines of an endpoint's instances.

    Attributes:
        instance: the id of one instance or of one of its containers; None for all instances of the
            endpoint.
        lines: how many lines of each instance, counted from the last.
        follow: whether lines that are printed later are sent too.
    """

    endpoint: str
    instance: str | None
    lines: int
    follow: bool

    @classmethod
    def read(cls, endpoint: str, query: Mapping[str, str]) -> Self:
        """Read a request's query: ``lines=N&follow=1&instance=ID``, each of which may be missing.

        Raises:
            InputValidationError: a value is not valid.
        """
        lines = query.get("lines", str(LOG_LINES))
        if not lines.isascii() or not lines.isdigit() or int(lines[:20]) > MAX_LOG_LINES:
            raise _wrong("lines", lines, f"a whole number from 0 to {MAX_LOG_LINES}")
        follow = query.get("follow", "0")
        if follow not in ("0", "1"):
            raise _wrong("follow", follow, "0 or 1")
        instance = query.get("instance")
        if instance is not None and INSTANCE_ID.fullmatch(instance) is None:
            raise _wrong("instance", instance, "an instance's id: letters, digits and hyphens")
        return cls(endpoint, instance, int(lines), follow == "1")


def _wrong(name: str, value: str, must: str) -> InputValidationError:
    return InputValidationError(f"{name}: {cut(safe(value), 60)!r} was given; it must be {must}")


def log_lines(
    asked: LogsAsked,
    instances: Callable[[], Mapping[str, bool] | None],
    folder: Path,
    clock: Clock,
    closing: asyncio.Event,
) -> AsyncGenerator[bytes, None]:
    """Yield whole lines, about 64 KiB at most at a time, as fast as the reader takes them.

    Where several instances have printed, each line begins with its instance's id. Instances that
    start while logs are followed are followed too, from their first line. An instance that was
    asked for by its id is followed until it ends. If an endpoint has no instances, the log of the
    instance that printed last is read.

    Args:
        instances: returns the ids of the endpoint's instances, each with whether it may print more;
            None once the endpoint is gone.
        clock: measures the time between two looks at the logs.
        closing: set when the gateway stops: logs are then read to their end, and not followed.

    Raises:
        InputValidationError: the endpoint has no such instance, or has so many that the request
            must name one.
    """
    first = _at_first(asked, instances() or {}, folder)
    return _lines(asked, first, instances, folder, clock, closing)


async def _lines(
    asked: LogsAsked,
    first: Mapping[str, bool],
    instances: Callable[[], Mapping[str, bool] | None],
    folder: Path,
    clock: Clock,
    closing: asyncio.Event,
) -> AsyncGenerator[bytes, None]:
    now: Mapping[str, bool] | None = first
    if not first:  # the endpoint has failed, perhaps under an earlier gateway.
        printed = await asyncio.to_thread(last_printed, folder, asked.endpoint)
        now = first = dict.fromkeys(printed, False)
    lines: int | None = asked.lines
    several = len(first) > 1
    begun: set[str] = set()
    tails: dict[str, LogTail] = {}
    #: When an ended instance was first found to have nothing more in its file.
    silent_since: dict[str, float] = {}
    try:
        while now is not None:
            begun &= now.keys()
            for each in now:
                if each not in begun and len(tails) < MAX_LOGS_TOGETHER:
                    begun.add(each)
                    tails[each] = LogTail(folder, each, lines)
            several = several or len(tails) > 1
            lines = None
            ends = not asked.follow or closing.is_set()
            brought = False
            # In turns, so that one busy instance does not hold up the others.
            for each, tail in list(tails.items()):
                data = await asyncio.to_thread(tail.read)
                brought, over = brought or bool(data), False
                if data or now.get(each, False):
                    silent_since.pop(each, None)
                else:  # the last lines may still wait for the disk, so the file is read again
                    since = silent_since.setdefault(each, clock.time())
                    over = clock.time() - since >= LOG_FOLLOW_INTERVAL
                if not data and (ends or over):
                    data = await asyncio.to_thread(tail.rest)
                    silent_since.pop(each, None)
                    tails.pop(each).close()
                if data:
                    yield _named(each, data) if several else data
            if not tails and (ends or asked.instance is not None):
                return
            if not brought and not ends:
                await set_or_over(closing, clock, LOG_FOLLOW_INTERVAL)  # until the next look
            now = _of_the_asked(asked, instances())
    finally:
        for tail in tails.values():
            tail.close()


def _at_first(asked: LogsAsked, now: Mapping[str, bool], folder: Path) -> Mapping[str, bool]:
    """Return the instances to read; an ended instance counts as long as its log exists.

    Raises:
        InputValidationError: there is no such instance, or there are too many.
    """
    if asked.instance is None:
        if len(now) > MAX_LOGS_TOGETHER:
            raise InputValidationError(
                f"endpoint {asked.endpoint!r} has {len(now)} instances; the logs of "
                f"at most {MAX_LOGS_TOGETHER} can be read together; name one instance"
            )
        return now
    wanted = asked.instance
    if meant := _meant(wanted, now):
        return meant
    files = log_files(folder, wanted)
    if wanted.startswith(f"{asked.endpoint}-") and any(path.exists() for path in files):
        return {wanted: False}
    there = f"; there are {', '.join(now)}" if now else ""
    raise InputValidationError(
        f"there is no instance {wanted!r} of endpoint {asked.endpoint!r}{there}", "InstanceNotFound"
    )


def _of_the_asked(asked: LogsAsked, now: Mapping[str, bool] | None) -> Mapping[str, bool] | None:
    return now if now is None or asked.instance is None else _meant(asked.instance, now)


def _meant(wanted: str, now: Mapping[str, bool]) -> Mapping[str, bool]:
    """Return the instance or container of this id; an instance counts with all its containers."""
    return {each: prints for each, prints in now.items() if wanted in (each, instance_of(each))}


def _named(instance: str, lines: bytes) -> bytes:
    head = f"{instance} | ".encode()
    return head + lines.removesuffix(b"\n").replace(b"\n", b"\n" + head) + b"\n"
