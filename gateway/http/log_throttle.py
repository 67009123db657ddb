"""Lines of the log that come again and again: a few are written, the rest counted.

A request of 17 bytes would be a line of 250. Of each kind, by address, event, error and endpoint,
or without an address where nobody waits for the answer,
the first lines of a time are written whole, and at its end one line has the number of the others.
The metrics count every request.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from partway.gateway.http.peers import peer_of
from partway.gateway.limits import REPEATED_KINDS, REPEATED_LINES, REPEATED_SECONDS
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine, Value

#: Loggers whose lines on connections and requests say whose they are, as ``peer``.
_LOGGERS: Final = ("partway.gateway", "partway.http1", "partway.http2", "partway.listener")

#: One whose lines are of requests that nobody waits for: they have no address.
_WITHOUT_PEERS: Final = "partway.async"

#: The event of the line that has the number of the others.
_MORE: Final = "more of the same"

#: Logger, event, address (empty where lines have none), error and endpoint.
_Kind = tuple[str, str, Value, Value, Value]


@dataclass(slots=True)
class _Seen:
    """What has been seen of a kind in its time.

    Attributes:
        until: the end of the time.
        lines: how many there were.
        level: the highest among those that were not written.
        timer: writes their number; None while all were written.
    """

    until: float
    lines: int = 0
    level: int = logging.NOTSET
    timer: Timer | None = None


class RepeatedLines(logging.Filter):
    """Lets few lines of a kind through, from :meth:`open` until :meth:`close`.

    Args:
        clock: by which the time of each kind is measured.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[_Kind, _Seen] = {}

    def open(self) -> None:
        """Look at all lines from here on."""
        for name in (*_LOGGERS, _WITHOUT_PEERS):
            logging.getLogger(name).addFilter(self)

    def close(self) -> None:
        """Write the numbers of lines that are due yet, and look at no more lines."""
        for kind, seen in list(self._seen.items()):
            if seen.timer is not None:
                seen.timer.cancel()
                self._tell(kind)
        for name in (*_LOGGERS, _WITHOUT_PEERS):
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
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
        """The time of a kind that begins; where too many are known, that of all other addresses."""
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
