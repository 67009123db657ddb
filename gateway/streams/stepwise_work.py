"""Long work, divided into steps: one per turn of the event loop, so that other tasks run too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from partway.gateway.timing.clock import Clock, Timer


class StepwiseWork:
    """One piece of work at a time, done in steps.

    Args:
        on_fault: called inside the ``except`` for an error of a step; the work is over then.
    """

    def __init__(self, clock: Clock, on_fault: Callable[[], None]) -> None:
        self._clock = clock
        self._on_fault = on_fault
        self._work: Iterator[None] | None = None
        self._turn: Timer | None = None

    @property
    def under_way(self) -> bool:
        return self._work is not None

    def begin(self, work: Iterator[None]) -> None:
        """Do the first step in the next turn, and one step per turn from then on."""
        self._work = work
        self.go_on()

    def hold(self) -> None:
        """Do no step before :meth:`go_on`."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def go_on(self) -> None:
        """Do the next step in the next turn."""
        if self._work is not None and self._turn is None:
            self._turn = self._clock.call_later(0.0, self._step)

    def stop(self) -> None:
        self.hold()
        self._work = None

    def _step(self) -> None:
        self._turn = None
        work = self._work
        assert work is not None, "work that was given up has no turn"
        # Scheduled first: the step itself may hold or stop the work, which cancels this turn.
        self.go_on()
        try:
            next(work)
        except StopIteration:
            if self._work is work:  # else its last step began other work
                self.stop()
        except Exception:  # any fault of ours
            self.stop()
            self._on_fault()
