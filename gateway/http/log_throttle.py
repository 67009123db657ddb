"""Throttling of log lines that repeat: a few are written, the rest counted.

A request of 17 bytes would be a line of 250. A kind of line is its address, event, error and
endpoint; asynchronous requests have no address. In each period, the first lines of a kind are
written whole. At the end of the period, one line has the number of the others. The metrics count
every request.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from partway.gateway.http.peers import peer_of
from partway.gateway.limits import REPEATED_KINDS, REPEATED_LINES, REPEATED_SECONDS
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine, Value

#: Loggers whose lines about connections and requests have a ``peer``.
_LOGGERS: Final = ("partway.gateway", "partway.http1", "partway.http2", "partway.listener")

#: A logger of asynchronous requests, whose lines have no address.
_WITHOUT_PEERS: Final = "partway.async"

#: The event of the line that has the number of the others.
_MORE: Final = "more of the same"

#: Logger, event, address (empty for lines without), error and endpoint.
_Kind = tuple[str, str, Value, Value, Value]


@dataclass(slots=True)
class _Seen:
    """The lines of one kind within its period.

    Attributes:
        level: the highest level among those that were not written.
        timer: writes their number; None while all were written.
    """

    until: float
    lines: int = 0
    level: int = logging.NOTSET
    timer: Timer | None = None


class RepeatedLines(logging.Filter):
    """Lets few lines of a kind through, from :meth:`open` until :meth:`close`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[_Kind, _Seen] = {}

    def open(self) -> None:
        for name in (*_LOGGERS, _WITHOUT_PEERS):
            logging.getLogger(name).addFilter(self)

    def close(self) -> None:
        for kind, seen in list(self._seen.items()):
            if seen.timer is not None:
                seen.timer.cancel()
                self._tell(kind)
        for name in (*_LOGGERS, _WITHOUT_PEERS):
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        line = record.msg
        if not isinstance(line, LogLine) or line.event == _MORE:
            return True
        fields = line.fields
        peer = str(fields.get("peer") or "")
        if not peer and record.name != _WITHOUT_PEERS:
            return True
        peer = peer and peer_of(peer)  # an IPv6 site may choose half of its addresses
        error = fields.get("error", fields.get("cause"))
        kind: _Kind = (record.name, line.event, peer, error, fields.get("endpoint"))
        now = self._clock.time()
        seen = self._seen.get(kind)
        if seen is None or (now >= seen.until and seen.timer is None):
            kind, seen = self._begun(kind, now)
        seen.lines += 1
        if seen.lines <= REPEATED_LINES:
            return True
        seen.level = max(seen.level, record.levelno)
        if seen.timer is None:
            seen.timer = self._clock.call_later(max(0.0, seen.until - now), self._tell, kind)
        return False

    def _begun(self, kind: _Kind, now: float) -> tuple[_Kind, _Seen]:
        """Begin a period for a kind; with too many kinds, for all other addresses together."""
        if kind not in self._seen and len(self._seen) >= REPEATED_KINDS:
            over = [
                each
                for each, seen in self._seen.items()
                if seen.timer is None and now >= seen.until
            ]
            for each in over:
                del self._seen[each]
            if len(self._seen) >= REPEATED_KINDS:
                name, event, _, error, _ = kind
                kind = (name, event, None, error, None)
                known = self._seen.get(kind)
                if known is not None and (known.timer is not None or now < known.until):
                    return kind, known
        seen = self._seen[kind] = _Seen(now + REPEATED_SECONDS)
        return kind, seen

    def _tell(self, kind: _Kind) -> None:
        seen = self._seen.pop(kind)
        name, event, peer, error, endpoint = kind
        more = LogLine(
            _MORE,
            **({} if peer == "" else {"peer": "others" if peer is None else peer}),
            line=event,
            **({} if error is None else {"error": error}),
            **({} if endpoint is None else {"endpoint": endpoint}),
            lines=seen.lines - REPEATED_LINES,
            seconds=REPEATED_SECONDS,
        )
        logging.getLogger(name).log(seen.level, more)
