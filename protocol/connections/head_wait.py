"""How long a connection of HTTP/1.1 waits for the head of a request."""

from __future__ import annotations

from collections.abc import Callable

from partway.protocol.connections.fair_turns import Cancellable


class HeadWait:
    """Tells that a whole head has not come in time, however its bytes dribble in (slowloris).

    Most heads come in time, and many within one such time: so its one timer is not set anew for
    each, but looks when it fires.

    Args:
        seconds: from :meth:`begin` to the head's end.
        over: called when they have passed; whoever has the head by then passes over it.
        call_later: calls back after a time, in seconds.
        time: the clock of that, in seconds.
    """

    __slots__ = ("_call_later", "_due", "_over", "_seconds", "_time", "_timer")

    def __init__(
        self,
        seconds: float,
        over: Callable[[], object],
        call_later: Callable[..., Cancellable],
        time: Callable[[], float],
    ) -> None:
        self._seconds = seconds
        self._over: Callable[[], object] | None = over
        self._call_later = call_later
        self._time = time
        self._due = 0.0
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        """Wait for the next head, from now on."""
        self._due = self._time() + self._seconds
        if self._timer is None:  # else it runs since an earlier wait
            self._timer = self._call_later(self._seconds, self._look)

    def cancel(self) -> None:
        """Wait no more, for good: nobody is told, nor held."""
        self._over = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        left = self._due - self._time()
        if left > 0:
            self._timer = self._call_later(left, self._look)
        elif self._over is not None:
            self._over()
