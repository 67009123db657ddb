"""The recorder: it keeps each stream in a file, which a thread writes.

The event loop only queues lines. When the disk is full or slower than the streams, recordings end
with a reason, and the streams go on.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol

from partway.gateway.storage.files import others_may
from partway.gateway.streams.container_leg import REQUEST_ID
from partway.gateway.workbench.intermediary.observer import (
    Observer,
    Sender,
    UpgradeAnswer,
    UpgradeRequest,
)
from partway.gateway.workbench.recording.lines import (
    Ended,
    Head,
    Line,
    Over,
    Passed,
    UpgradeAnswered,
    left_out,
    to_json,
)
from partway.log_lines import LogLine
from partway.protocol.limits import MAX_ENDPOINT_NAME
from partway.protocol.websocket.frames import Frame

log = logging.getLogger("partway.record")

#: Most bytes of one recording. Half an hour of speech as 16-bit PCM at 16 kHz is 73 MiB of base64.
MAX_BYTES: Final = 128 << 20

#: Most recordings of one recorder, and most bytes of all, so that streams cannot fill a disk.
MAX_RECORDINGS: Final = 1000
MAX_BYTES_IN_ALL: Final = 16 << 30

#: Most payload bytes that wait for the disk, of all streams together. This is two of the largest
#: frames, or seconds of any load that a disk can sustain.
MAX_WAITING: Final = 32 << 20

#: Seconds that the end of a recorder waits for the disk.
CLOSE_TIMEOUT: Final = 5.0

#: Headers that are kept: no credentials and no signatures. Remember both before you add one.
KEPT_OF_REQUEST: Final = frozenset({REQUEST_ID.lower(), "user-agent"})
KEPT_OF_ANSWER: Final = frozenset({"server", "content-type", "retry-after"})
_MAX_HEADER: Final = 256

#: Bytes of a waiting line beside its payload, so that a flood of empty frames is bounded too.
_OVERHEAD: Final = 512

_OTHERS_NAME: Final = 1000
_SLOW: Final = "the disk was slower than the streams"


class Sink(Protocol):
    """A file that is written without a buffer, as far as a recording needs one."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Write some of the bytes; return how many."""

    def truncate(self, size: int, /) -> object:
        """Forget the bytes behind the file's first ``size`` bytes."""

    def seek(self, at: int, /) -> object:
        """Write next behind the file's first ``at`` bytes."""

    def close(self) -> None: ...


#: Creates a file at a path where no file was.
Create = Callable[[Path], Sink]


def create(path: Path) -> Sink:
    """Create a file that only its owner can read.

    Raises:
        FileExistsError: there is a file of that name already.
    """
    return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")


class Recorder:
    """Records streams; see :class:`partway.gateway.workbench.intermediary.observer.Observer`.

    The owner must call :meth:`close` at the end. All other methods are called on the loop's thread.

    Args:
        directory: the folder of the recordings; made for its owner alone if it is missing.
        payloads: whether to keep payloads, and not only their sizes.
        max_bytes: most bytes of one recording, which then ends.
        max_recordings: most recordings in all; later streams are not recorded.
        max_bytes_in_all: most bytes of all recordings; then all end, and no others begin.
        max_waiting: most bytes that wait for the disk, at most half of them of one stream; beyond
            it recordings end.

    Raises:
        OSError: the directory cannot be made, or cannot be written to.
    """

    def __init__(
        self,
        directory: Path,
        payloads: bool = True,
        *,
        max_bytes: int = MAX_BYTES,
        max_recordings: int = MAX_RECORDINGS,
        max_bytes_in_all: int = MAX_BYTES_IN_ALL,
        max_waiting: int = MAX_WAITING,
        create: Create = create,
    ) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(f"{directory}: cannot be written to")
        if "write" in others_may(directory.stat().st_mode):
            shared = "other users can delete recordings in this folder: chmod 700"
            log.warning(LogLine(shared, folder=str(directory)))
        self.payloads = payloads
        self.max_bytes = max_bytes
        self._directory = directory
        self._create = create
        self._max_recordings = max_recordings
        self._max_bytes_in_all = max_bytes_in_all
        self._written = 0  # the thread's
        self._full = False  # set by the thread, once
        self._begun = 0
        self._max_waiting = max_waiting
        self._waiting = 0
        self._lock = threading.Lock()
        self._open: set[_Stream] = set()
        self._closed = False
        self._queue: SimpleQueue[tuple[_Stream, Line, int] | None] = SimpleQueue()
        # A daemon thread: a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def observe(self, endpoint: str, request: UpgradeRequest) -> Observer | None:
        """Record a stream; None if no more streams are recorded."""
        if self._closed or self._full or self._begun > self._max_recordings:
            return None
        self._begun += 1
        if self._begun > self._max_recordings:
            log.warning(LogLine("no more streams are recorded", recorded=self._max_recordings))
            return None
        stream = _Stream(self, endpoint, request)
        if stream.over:  # the disk is behind already
            return None
        self._open.add(stream)
        return stream

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """End all recordings, and wait for the disk.

        The call blocks. From a loop use ``await asyncio.to_thread(recorder.close)``, once no stream
        is left.
        """
        if self._closed:
            return
        self._closed = True
        for stream in list(self._open):
            stream.end("the recorder was stopped before the stream's end")
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.warning(
                LogLine(
                    "the disk did not take all recordings in time",
                    bytes_left=self._waiting,
                    seconds=timeout,
                )
            )

    # --- For streams, on the loop's thread --------------------------------------------------------

    def put(self, stream: _Stream, line: Line, size: int) -> bool:
        """Queue a line; False if too much waits already."""
        cost = size + _OVERHEAD
        with self._lock:
            # A frame may be larger than the whole limit: it is queued when nothing else waits.
            if self._waiting and self._waiting + cost > self._max_waiting:
                return False
            # Half is for others, so that a flood on one stream does not end other recordings.
            if stream.waiting and stream.waiting + cost > self._max_waiting // 2:
                return False
            self._waiting += cost
            stream.waiting += cost
        self._queue.put((stream, line, cost))
        return True

    def put_last(self, stream: _Stream, line: Over) -> None:
        """Queue a recording's last line, for which there is always room."""
        self._open.discard(stream)
        self._queue.put((stream, line, 0))

    # --- The thread -------------------------------------------------------------------------------

    def _write(self) -> None:
        while (item := self._queue.get()) is not None:
            stream, line, cost = item
            stream.write(line)
            with self._lock:
                self._waiting -= cost
                stream.waiting -= cost

    def has_room(self, size: int) -> bool:
        """Whether ``size`` bytes more may be written; if so, they are counted as written."""
        self._full = self._full or self._written + size > self._max_bytes_in_all
        if self._full:
            return False
        self._written += size
        return True

    def create_for(self, head: Head) -> tuple[Path, Sink]:
        """Create a recording's file, under a name that no other recording has.

        Raises:
            OSError: the file cannot be made.
        """
        endpoint = re.sub(r"[^A-Za-z0-9-]", "_", head.endpoint)[:MAX_ENDPOINT_NAME]
        name = f"{head.started:%Y%m%dT%H%M%S.%f}Z-{endpoint}"
        for number in range(1, _OTHERS_NAME):
            path = self._directory / (f"{name}.jsonl" if number == 1 else f"{name}-{number}.jsonl")
            with suppress(FileExistsError):
                return path, self._create(path)
        raise FileExistsError(
            f"{_OTHERS_NAME - 1} recordings have the name {name}; there must be no more"
        )


class _Stream(Observer):
    """The recording of one stream.

    The loop's thread calls the methods up to :meth:`end`, the writing thread calls :meth:`write`.
    """

    def __init__(self, recorder: Recorder, endpoint: str, request: UpgradeRequest) -> None:
        self._recorder = recorder
        self._began = time.monotonic()
        #: Whether the last line has been queued.
        self.over = False
        #: Bytes of this stream that wait for the disk; under the recorder's lock.
        self.waiting = 0
        # The writing thread's.
        self._key = os.urandom(32)
        self._path: Path | None = None
        self._sink: Sink | None = None
        self._written = 0
        #: Set by the thread, once: nothing more is written.
        self._broken = False
        headers = _kept(request.headers, KEPT_OF_REQUEST)
        self._put(Head(endpoint, request.target, datetime.now(UTC), headers=headers))

    def answered(self, answer: UpgradeAnswer) -> None:
        headers = _kept(answer.headers, KEPT_OF_ANSWER)
        self._put(
            UpgradeAnswered(self._at(), answer.status, headers, answer.body), len(answer.body)
        )

    def frame(self, sender: Sender, frame: Frame) -> None:
        self._put(Passed.of(self._at(), sender, frame), len(frame.payload))

    def ended(self, sender: Sender, error: str = "") -> None:
        self._put(Ended(self._at(), sender, error))

    def closed(self) -> None:
        self.end()

    def end(self, why: str = "") -> None:
        """Write the recording's last line, if it has not been written."""
        if not self.over:
            self.over = True
            self._recorder.put_last(self, Over(self._at(), not why, why))

    def _put(self, line: Line, size: int = 0) -> None:
        if not self.over and not self._broken and not self._recorder.put(self, line, size):
            self.end(_SLOW)

    def _at(self) -> float:
        return round(time.monotonic() - self._began, 6)

    # --- The thread -------------------------------------------------------------------------------

    def write(self, line: Line) -> None:
        """Write a line to the file; the recording's last line closes the file."""
        if self._broken:
            return
        try:
            if isinstance(line, Head):
                self._path, self._sink = self._recorder.create_for(line)
            if not self._recorder.payloads:
                line = left_out(line, self._key)
            pieces = to_json(line)
            size = sum(map(len, pieces))
            if isinstance(line, Over):
                if line.why:
                    self._say(line.why)
            elif self._written + size > self._recorder.max_bytes:
                most = self._recorder.max_bytes
                self._give_up(line, f"a recording may have {most} bytes at most")
                return
            elif not self._recorder.has_room(size):
                self._give_up(line, "all recordings together have reached their limit of bytes")
                return
            self._append(pieces)
            self._written += size
            if isinstance(line, Over):
                self._close()
        except OSError as error:
            self._give_up(line, error.strerror or str(error))

    def _append(self, pieces: Iterable[bytes]) -> None:
        if self._sink is None:  # the head found no place in the queue
            return
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[self._sink.write(rest) :]

    def _give_up(self, line: Line, why: str) -> None:
        """End the recording behind its last whole line."""
        self._broken = True
        self._say(why)
        if self._sink is None:
            return
        at = 0.0 if isinstance(line, Head) else line.at
        with suppress(OSError):  # a full disk may have no room for the last line
            self._sink.truncate(self._written)
            self._sink.seek(self._written)
            if self._written:
                self._append(to_json(Over(at, False, why)))
        with suppress(OSError):
            self._close()

    def _close(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()

    def _say(self, why: str) -> None:
        file = None if self._path is None else str(self._path)
        log.warning(LogLine("a recording ends before its stream", file=file, reason=why))


def _kept(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> Mapping[str, str]:
    return {name: value[:_MAX_HEADER] for name, value in headers if name.lower() in names}
