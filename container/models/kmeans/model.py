"""KMeans: the model that the runtime serves."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from partway.container.errors import Busy, ModelError
from partway.container.limits import MAX_BODY_BYTES
from partway.container.model import Model, Reply, Request
from partway.container.models.kmeans.centroids import load_centroids
from partway.container.models.kmeans.formats import (
    CSV,
    ENCODERS,
    JSON_LINES,
    check_content_type,
    decode,
    encode,
    encode_error,
)
from partway.container.models.kmeans.nearest import Nearest, gpu
from partway.container.stream import Stream
from partway.container.workers import Threads
from partway.protocol.media.negotiation import media_type, preferred

#: Bytes of bodies that are being received or wait for a worker; over it clients get 503. The ten
#: largest, each of which keeps a worker for seconds.
MAX_HELD: Final = 10 * MAX_BODY_BYTES


class KMeans(Model):
    """Says which centroid is nearest to each record, and how far it is."""

    #: One for what comes between, while the other one is at a large batch.
    runs_on: ClassVar = Threads(count=2, queue=256)
    max_concurrent_transforms = 2

    def __init__(self) -> None:
        self._held = 0

    def load(self, model_dir: Path) -> None:
        """Read the centroids.

        Raises:
            CentroidsError: the directory has no centroids, or those in it cannot be used.
        """
        self._nearest = Nearest(load_centroids(model_dir), gpu())

    async def invoke(self, request: Request) -> Reply:
        """Answer a body of records, in the format that ``Accept`` prefers."""
        content_type = media_type(request.content_type)
        check_content_type(content_type)
        accepted = preferred(request.headers.getall("Accept", ()), tuple(ENCODERS))
        if accepted is None:
            raise ModelError(f"Accept must allow one of {', '.join(ENCODERS)}", status=406)
        body = bytearray()
        try:
            async for chunk in request.body:
                body += chunk
                self._held += len(chunk)
                if self._held > MAX_HELD:
                    raise Busy(f"requests of more than {MAX_HELD} bytes are under way")
            answer = await self.workers.run(self.answer, bytes(body), content_type.name, accepted)
        finally:
            self._held -= len(body)
        return Reply(answer, accepted)

    async def stream(self, stream: Stream) -> None:
        """Answer each message, which is JSON Lines or CSV, with one of the same format.

        A message that cannot be answered is answered with its error; the stream goes on.
        """
        async for message in stream.messages():
            body = message.encode() if isinstance(message, str) else message
            format_name = JSON_LINES if body.lstrip().startswith(b"{") else CSV
            try:
                answer = await self.workers.run(self.answer, body, format_name, format_name)
            except ModelError as error:
                answer = encode_error(error.reason)
            await stream.send(answer.decode().removesuffix("\n"))

    def answer(self, body: bytes, format_name: str, accepted: str) -> bytes:
        """Answer a body; on a worker.

        Args:
            body: the records.
            format_name: the format of the body.
            accepted: the format of the answer.

        Raises:
            ModelError: the body cannot be read, or a record in it cannot be measured.
        """
        records = decode(body, format_name, self._nearest.width)
        return encode(*self._nearest.find(records), accepted)
