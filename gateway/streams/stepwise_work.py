"""Work in steps, one at a turn of the loop: others have their turns in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from partway.gateway.timing.clock import Clock, Timer


class StepwiseWork:
    """One piece of work at a time, which belongs to whoever made this.

    Args:
        clock: whose turns to take.
        on_fault: called inside the ``except`` for whatever a step raises; the work is over then.
    """

    def __init__(self, clock: Clock, on_fault: Callable[[], None]) -> None:
        self._clock = clock
        self._on_fault = on_fault
        self._work: Iterator[None] | None = None
        self._turn: Timer | None = None

    @property
    def under_way(self) -> bool:
        """Whether there is work that has not come to its end."""
        return self._work is not None

    def begin(self, work: Iterator[None]) -> None:
        """Do the first step at the next turn, and one step a turn from then on."""
        self._work = work
        self.go_on()

    def hold(self) -> None:
        """Do no step before :meth:`go_on`."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def go_on(self) -> None:
        """Do the next step at the next turn."""
        if self._work is not None and self._turn is None:
            self._turn = self._clock.call_later(0.0, self._step)

    def stop(self) -> None:
        """Give the work up."""
        self.hold()
        self._work = None

    def _step(self) -> None:
        self._turn = None
        work = self._work
        assert work is not None, "work that was given up has no turn"
        # The turn after this one: what is held back in the step, or given up, takes it away.
        self.go_on()
        try:
            next(work)
        except StopIteration:
            if self._work is work:  # else its end was the beginning of other work
                self.stop()
        except Exception:  # ours, whatever it is
            self.stop()
            self._on_fault()
