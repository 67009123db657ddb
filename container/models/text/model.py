"""The model class of ``text``: conversations on streams, answers on ``/invocations``."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partway.container.errors import ModelError
from partway.container.model import Model, Reply, Request
from partway.container.models.text.chat_completions import (
    DONE,
    EVENT_STREAM,
    JSON,
    ChatAsk,
    Completion,
    FinishReason,
    error_body,
    error_event,
    invocation_of,
)
from partway.container.models.text.conversation_stream import ConversationStream
from partway.container.models.text.generation_request import (
    MAX_TEXT_BYTES,
    Ask,
    Sampling,
    too_much_text,
)
from partway.container.models.text.prompts import Conversation, Prompts
from partway.container.models.text.replies import TextReply
from partway.container.models.text.settings import Sample, TextSettings
from partway.container.stream import Stream
from partway.container.workers import Threads

if TYPE_CHECKING:
    from partway.container.models.text.engine import Engine

#: Workers for tokenizing: two threads, so that a long prompt does not delay all others.
_TOKENIZING = Threads(count=2, queue=256, deadline=20.0)


class Text(Model):
    """A causal language model, from a directory in Hugging Face's layout.

    Args:
        settings: the model's settings; by default from the environment.
    """

    runs_on = _TOKENIZING

    def __init__(self, settings: TextSettings | None = None) -> None:
        self._given = settings
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine that generates; it exists once the model is loaded."""
        if self._engine is None:
            raise RuntimeError("the model is not loaded")
        return self._engine

    @property
    def tokenizer(self) -> Any:
        return self._loaded.tokenizer

    def load(self, model_dir: Path) -> None:
        """Load weights and tokenizer, and start the engine.

        Raises:
            RuntimeError: the packages that the model runs on are not installed.
            NotLoadable: the directory does not hold a model, or there is not enough memory.
            ValueError: a setting is out of range.
        """
        try:
            from partway.container.models.text.engine import Engine
            from partway.container.models.text.loading import explained, load
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"the model text needs torch and transformers, but {error.name} is not installed: "
                "pip install 'partway[text]'; a torch without GPU support is at "
                "https://download.pytorch.org/whl/cpu"
            ) from error
        settings = self._settings = self._given or TextSettings.from_environment(os.environ)
        loaded = self._loaded = load(model_dir, settings)
        self._engine = explained(model_dir, "the engine", lambda: Engine(loaded, settings))
        self._prompts = Prompts(loaded.tokenizer, self._engine.context)
        self._name = model_dir.name

    def unload(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def healthy(self) -> bool:
        """Return whether the engine works.

        Raises:
            ModelError: the engine has stopped; the reason says why.
        """
        trouble = self.engine.trouble
        if trouble is not None:
            raise ModelError(trouble)
        return True

    async def stream(self, stream: Stream) -> None:
        """Hold a conversation: each message is a request, and gets one answer."""
        await ConversationStream(self.begin, stream, self._settings.queued).run()

    async def invoke(self, request: Request) -> Reply:
        """Answer one request: with generated text, or with a chat completion."""
        asked = invocation_of(await _body(request))
        if isinstance(asked, ChatAsk):
            try:
                return await self._complete(asked)
            except ModelError as error:
                return Reply(error_body(error.reason, error.status), JSON, status=error.status)
        reply = await self._answer(asked)
        return Reply(_Body(reply, _texts(reply)), "text/plain; charset=utf-8")

    async def begin(self, conversation: Conversation, sampling: Sampling) -> TextReply:
        """Begin the next reply of a conversation; the caller must call its ``close()``.

        Raises:
            Refused: the prompt is too long, or unsuitable for this model.
            Busy: too many replies are under way, or too many prompts wait to be tokenized.
        """
        most = sampling.max_new_tokens or self._settings.max_new_tokens
        prompt = await self.workers.run(
            self._prompts.prompt, list(conversation.turns), most, whole=conversation.whole
        )
        conversation.turns = prompt.turns  # turns that do not fit now will never fit
        usual = self._loaded.sample
        sample = Sample(
            usual.temperature if sampling.temperature is None else sampling.temperature,
            usual.top_p if sampling.top_p is None else sampling.top_p,
        )
        generation = self.engine.generate(prompt.tokens, most, sample)
        return TextReply(generation, self._loaded.decode, sampling.stop)

    async def _answer(self, ask: Ask) -> TextReply:
        conversation = Conversation()
        conversation.ask(ask)
        return await self.begin(conversation, ask.sampling)

    async def _complete(self, asked: ChatAsk) -> Reply:
        completion = Completion(
            f"chatcmpl-{uuid.uuid4().hex}",
            asked.model or self._name,
            int(time.time()),
            include_usage=asked.include_usage,
        )
        reply = await self._answer(asked.ask)
        if asked.stream:
            events = _events(reply, completion, include_usage=asked.include_usage)
            return Reply(_Body(reply, events), EVENT_STREAM)
        try:
            while reply.finish is None:
                await reply.next()
        finally:
            reply.close()
        return Reply(completion.whole(reply.text, _reason(reply), reply.usage), JSON)


class _Body(AsyncIterator[str | bytes]):
    """A reply as a response's body; closing the body cancels the reply.

    The generator alone would not do: if it is closed before it has begun, it closes nothing.
    """

    def __init__(self, reply: TextReply, items: AsyncGenerator[str | bytes]) -> None:
        self._reply = reply
        self._items = items

    async def __anext__(self) -> str | bytes:
        return await anext(self._items)

    async def aclose(self) -> None:
        self._reply.close()
        await self._items.aclose()


async def _texts(reply: TextReply) -> AsyncGenerator[str]:
    while reply.finish is None:
        yield await reply.next()


async def _events(
    reply: TextReply, completion: Completion, *, include_usage: bool
) -> AsyncGenerator[bytes]:
    piece = await reply.next()
    yield completion.first_chunk()
    try:
        while True:
            if piece:
                yield completion.chunk(piece)
            if reply.finish is not None:
                break
            piece = await reply.next()
    except ModelError as error:  # the head has been sent
        yield error_event(error.reason, error.status)
        return
    yield completion.last_chunk(_reason(reply))
    if include_usage:
        yield completion.usage_chunk(reply.usage)
    yield DONE


def _reason(reply: TextReply) -> FinishReason:
    return "length" if reply.finish == "length" else "stop"


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.body:
        body += chunk
        if len(body) > MAX_TEXT_BYTES:
            raise too_much_text()
    return bytes(body)
