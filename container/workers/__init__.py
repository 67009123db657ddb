"""Workers: where a model computes, away from the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from container.limits import JOB_DEADLINE, QUEUE_LENGTH
from container.threads import in_thread

if TYPE_CHECKING:
    from container.model import Model

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Threads:
    """Worker threads in this process. The model is loaded once, and they share it.

    Attributes:
        count: how many compute at a time.
        queue: how many jobs may wait for one of them.
        deadline: seconds from asking until a job is done, waiting included.
    """

    count: int = 1
    queue: int = QUEUE_LENGTH
    deadline: float = JOB_DEADLINE


@dataclass(frozen=True, slots=True)
class Processes:
    """Worker processes. Each makes the model and loads it.

    Attributes:
        count: how many compute at a time.
        queue: how many jobs may wait for one of them.
        deadline: seconds from asking until a job is done, waiting included.
    """

    count: int = 1
    queue: int = QUEUE_LENGTH
    deadline: float = JOB_DEADLINE


class Workers:
    """Runs a model's methods on its workers."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def start(self, model_dir: Path) -> None:
        """Load the model; raises whatever ``load`` raises."""
        await in_thread(self._model.load, model_dir, name="partway-load")

    def trouble(self) -> str | None:
        """Why they cannot serve; None if they can."""
        return None

    async def stop(self) -> None:
        """End them."""

    async def run(self, method: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a method of the model on a worker, and return what it returns."""
        return await in_thread(lambda: method(*args, **kwargs), name="partway-worker")

    def iterate(
        self, method: Callable[_P, Iterator[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> AsyncIterator[_T]:
        """Run a generator of the model on a worker, and iterate over what it yields."""
        raise NotImplementedError
