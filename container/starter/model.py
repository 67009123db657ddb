"""A model that answers in words, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from partway import Model, ModelError, Reply, Request, Stream


class Chat(Model):
    """Repeats each prompt, and counts its words."""

    def load(self, model_dir: Path) -> None:
        self.opening = "You said:"  # weights are read here; it may take minutes

    def healthy(self) -> bool:
        return True  # False has the container replaced

    def words(self, prompt: str) -> Iterator[str]:
        """Compute the answer; plain code, on a worker thread."""
        told = prompt.split()
        if not told:
            raise ModelError("say something", code=4400, status=400)
        yield self.opening
        yield from (f" {word}" for word in told)
        yield f" (words: {len(told)})"

    async def stream(self, stream: Stream) -> None:
        async for prompt in stream.messages():
            if isinstance(prompt, bytes):
                raise ModelError("this model reads text", code=4415)
            async with stream.message(text=True) as answer:
                async for word in self.workers.iterate(self.words, prompt):
                    await answer.send(word)

    async def invoke(self, request: Request) -> Reply:
        prompt = (await request.read()).decode(errors="replace")
        return Reply(self.workers.iterate(self.words, prompt))
