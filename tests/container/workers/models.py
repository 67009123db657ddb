"""Models for the tests of workers; worker processes import them from here."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from partway.container import Model, ModelError

#: Longer than any test.
ENDLESS = 100.0


class Quota(ModelError):
    """A model's own error, whose ``__init__`` takes something else."""

    def __init__(self, limit: int, user: str) -> None:
        super().__init__(f"{user} may have {limit}", code=4003, status=429)
        self.limit = limit


class Fussy(Exception):
    """Can be taken apart, and not be put together."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


class OnlyHere:
    """Can be put together in no other process."""

    def __reduce__(self) -> tuple[Callable[[int], OnlyHere], tuple[int]]:
        return _only_here, (os.getpid(),)


def _only_here(pid: int) -> OnlyHere:
    if pid != os.getpid():
        raise ValueError(f"made in {pid}")
    return OnlyHere()


class Worked(Model):
    """Methods that compute, fail, hang and die.

    ``load`` notes itself in the file ``loads`` of its directory, and does as the file ``order``
    there says.
    """

    def __init__(self) -> None:
        self.loaded_by: tuple[int, str] | None = None

    def load(self, model_dir: Path) -> None:
        with (model_dir / "loads").open("a") as notes:
            notes.write(f"{os.getpid()}\n")
        order = model_dir / "order"
        match order.read_text() if order.exists() else "":
            case "fail":
                raise FileNotFoundError("the weights are not there")
            case "exit":
                sys.exit("no weights")
            case "die":
                os._exit(9)
            case "hang":
                time.sleep(ENDLESS)
        self.loaded_by = (os.getpid(), threading.current_thread().name)

    # --- Methods that return ---------------------------------------------------------------------

    def who_loaded(self) -> tuple[int, str] | None:
        return self.loaded_by

    def pid(self) -> int:
        return os.getpid()

    def add(self, left: Any, right: Any = 0) -> Any:
        return left + right

    def same(self, value: Any) -> Any:
        return value

    def unpicklable(self) -> object:
        return lambda: None

    def only_there(self) -> OnlyHere:
        return OnlyHere()

    def fail(self, error: BaseException) -> None:
        raise error

    def fail_with_quota(self) -> None:
        raise Quota(5, user="ann")

    def fail_fussily(self) -> None:
        raise Fussy("this", "that")

    def fail_locally(self) -> None:
        class Local(ModelError):
            pass

        raise Local("of no other process", code=4001, status=418)

    def starve(self) -> bytes:
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, before[1]))
        try:
            return bytes(4 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    def hang(self, sign: Path) -> None:
        sign.touch()
        time.sleep(ENDLESS)

    def die(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def crash(self) -> None:
        ctypes.string_at(0)

    def leave(self, status: int) -> None:
        os._exit(status)

    def say(self, text: str) -> None:
        print(text)
        logging.getLogger("a.model").warning(text)

    # --- Generators ------------------------------------------------------------------------------

    def count(self, last: int) -> Iterator[int]:
        yield from range(last)

    def count_then_fail(self, last: int) -> Iterator[int]:
        yield from range(last)
        raise LookupError("no more")

    def count_and_note(self, notes: Path, wait: float = 0) -> Iterator[int]:
        """Notes how far it has come, and that it was closed."""
        number = 0
        try:
            while True:
                number += 1
                yield number
                time.sleep(wait)
        finally:
            notes.write_text(str(number))

    def count_and_tell(self, notes: Path) -> Iterator[int]:
        """Notes each number before it yields it."""
        number = 0
        while True:
            number += 1
            notes.write_text(str(number))
            yield number

    def one_then_compute(self) -> Iterator[int]:
        yield os.getpid()
        while True:
            pass

    def mixed(self, bad: str) -> Iterator[object]:
        yield "good"
        yield self.unpicklable() if bad == "unpicklable" else OnlyHere()
        yield "never seen"

    def fork_then_die(self) -> Iterator[int]:
        """Leaves a process behind that outlives it."""
        pid = os.fork()
        if not pid:
            time.sleep(ENDLESS)
        yield pid
        os.kill(os.getpid(), signal.SIGKILL)

    def plain(self) -> list[int]:
        return [1, 2]


class Picky(Model):
    """Cannot be made without arguments."""

    def __init__(self, size: int) -> None:
        self.size = size
