"""Worker settings of a model, and the interface that workers expect of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from partway.container.limits import JOB_DEADLINE, QUEUE_LENGTH


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The common settings of threads and processes.

    Attributes:
        count: number of workers.
        queue: number of jobs that may wait for a worker.
        deadline: seconds from submission until a job must be done, waiting included.

    Raises:
        ValueError: ``count``, ``queue`` or ``deadline`` is out of range.
    """

    count: int = 1
    queue: int = QUEUE_LENGTH
    deadline: float = JOB_DEADLINE

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count {self.count} was given; it must be 1 or more")
        if self.queue < 0:
            raise ValueError(f"queue {self.queue} was given; it must be 0 or more")
        if not 0 < self.deadline < math.inf:
            raise ValueError(
                f"deadline {self.deadline} was given; it must be finite, and more than 0"
            )


class Threads(WorkerSettings):
    """Worker threads in this process. The model is loaded once, and they share it.

    For code that releases the interpreter lock while it computes, as numpy, torch and ONNX do.
    """

    __slots__ = ()


class Processes(WorkerSettings):
    """Worker processes. Each creates the model, by calling its class, and loads it.

    For code that computes in Python, that crashes, or that must be stopped when its client leaves.
    A process that goes on with an abandoned job is killed and replaced.
    """

    __slots__ = ()


class Loadable(Protocol):
    """A :class:`~partway.container.model.Model`, as far as its workers use it."""

    @property
    def runs_on(self) -> Threads | Processes | None:
        """Its workers; None for one thread."""

    def load(self, model_dir: Path) -> None: ...


@runtime_checkable
class Configurable(Protocol):
    """A model that may have settings, which each worker process gets too."""

    settings: Any

    @property
    def settings_type(self) -> type[Any] | None:
        """The class of its settings; None if it has none."""
