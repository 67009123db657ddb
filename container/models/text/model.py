"""The model class of ``text``: conversations on streams, answers on ``/invocations``."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partway.container.errors import ModelError
from partway.container.model import Model, Reply, Request, request_route, route
from partway.container.models.ignored_names import IgnoredNames
from partway.container.models.openai_events import EVENT_STREAM, JSON, json_of
from partway.container.models.text.chat_answers import ChatAnswer
from partway.container.models.text.chat_completions import ChatAsk, chat_of, is_chat
from partway.container.models.text.chunk_stream import ChunkStream
from partway.container.models.text.conversation_stream import ConversationStream
from partway.container.models.text.generation_request import Ask, ask_of, prompt_of
from partway.container.models.text.grammar_compiler import GrammarCompiler
from partway.container.models.text.grammars import Grammars
from partway.container.models.text.openai_answers import OpenAIAnswer, server_sent
from partway.container.models.text.openai_completions import (
    CompletionAsk,
    TextAnswer,
    completion_of,
)
from partway.container.models.text.output_constraints import Constraint
from partway.container.models.text.prompts import Conversation, Prompts
from partway.container.models.text.replies import TextReply
from partway.container.models.text.request_members import (
    MAX_TEXT_BYTES,
    Members,
    Refused,
    members_of,
    quoted,
    too_much_text,
)
from partway.container.models.text.sampling_options import Sampling
from partway.container.models.text.settings import Sample, TextSettings
from partway.container.models.text.tgi_inputs import (
    GeneratedAnswer,
    InputsAsk,
    inputs_of,
    is_inputs,
)
from partway.container.models.text.token_scores import TokenNames
from partway.container.models.text.tools import Tools
from partway.container.stream import Stream
from partway.container.workers import Threads
from partway.protocol.openai.errors import error_body

if TYPE_CHECKING:
    from partway.container.models.text.engine import Engine

log = logging.getLogger("partway.container.text")

#: Workers for tokenizing: two threads, so that a long prompt does not delay all others.
TOKENIZING = Threads(count=2, queue=256, deadline=20.0)


class Text(Model):
    """A causal language model, from a directory in Hugging Face's layout.

    Args:
        settings: the model's settings; by default from the environment.
    """

    runs_on = TOKENIZING

    settings_type = TextSettings
    settings: TextSettings

    def __init__(self, settings: TextSettings | None = None) -> None:
        if settings is not None:
            self.settings = settings
        self._engine: Engine | None = None
        self._ignored = IgnoredNames(log, "a member of a request has no effect")

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
        """
        try:
            from partway.container.models.text.engine import Engine
            from partway.container.models.text.loading import explained, load
            from partway.container.models.text.metrics import EngineMetrics
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"the model text needs torch and transformers, but {error.name} is not installed: "
                "pip install 'partway[text]'; a torch without GPU support is at "
                "https://download.pytorch.org/whl/cpu"
            ) from error
        settings = self.settings
        loaded = self._loaded = load(model_dir, settings)
        name = self._name = model_dir.name
        metrics = EngineMetrics(name, self.metrics)
        self._engine = explained(model_dir, "the engine", lambda: Engine(loaded, settings, metrics))
        self._prompts = Prompts(loaded.tokenizer, self._engine.context)
        vocabulary = int(loaded.model.get_output_embeddings().weight.shape[0])
        self._compiler = GrammarCompiler(Grammars(loaded.tokenizer, vocabulary, loaded.ends))
        self._token_names = TokenNames(loaded.tokenizer)
        self._loaded_at = int(time.time())

    def unload(self) -> None:
        if self._engine is not None:
            self._compiler.close()
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
        await ConversationStream(self.begin, stream, self.settings.queued).run()

    @route("v1/chat/completions")
    async def chunks(self, stream: Stream) -> None:
        """Answer each message, a chat completion request, with its chunks and ``[DONE]``."""
        await ChunkStream(self._begin_chat, stream).run()

    async def invoke(self, request: Request) -> Reply:
        """Answer one request: with generated text, or in the form that its body has."""
        body = await _body(request)
        members = None if _is_text(request) else members_of(body)
        if members is not None and is_chat(members):
            return await self._in_openai_form(self._chat, members)
        if members is not None and is_inputs(members):
            return await self._in_openai_form(self._generate, members)
        reply = await self._answer(prompt_of(body) if members is None else ask_of(members))
        return Reply(_Body(reply, reply.pieces()), "text/plain; charset=utf-8")

    @request_route("v1/chat/completions")
    async def chat_completions(self, request: Request) -> Reply:
        """Answer a chat completion request of OpenAI's clients."""
        return await self._in_openai_form(self._chat, request)

    @request_route("v1/completions")
    async def completions(self, request: Request) -> Reply:
        """Answer a completion request of OpenAI's clients."""
        return await self._in_openai_form(self._continue, request)

    @request_route("v1/models", method="GET")
    async def models(self, request: Request) -> Reply:
        """List the one model."""
        model = {"id": self._name, "object": "model", "created": self._loaded_at}
        listed = {"object": "list", "data": [{**model, "owned_by": "partway"}]}
        return Reply(json_of(listed), JSON)

    # --- Replies ---------------------------------------------------------------------------------

    async def begin(
        self, conversation: Conversation, sampling: Sampling, tools: Tools | None = None
    ) -> TextReply:
        """Begin the next reply of a conversation; the caller must call its ``close()``.

        Raises:
            Refused: the prompt is too long, or unsuitable for this model; or an option is.
            Busy: too many replies are under way, or too many prompts wait to be tokenized, or
                schemas to be compiled.
            TooSlow: the prompt was not tokenized, or the schema not compiled, in time.
        """
        most = sampling.max_new_tokens or self.settings.max_new_tokens
        constraint = sampling.constraint
        if tools is not None:
            constraint = self._prompts.call_form.constraint(tools)
        grammar = await self._compiled(constraint)
        prompt = await self.workers.run(
            self._prompts.prompt,
            list(conversation.turns),
            most,
            whole=conversation.whole,
            tools=tools,
        )
        conversation.turns = prompt.turns  # turns that do not fit now will never fit
        if tools is not None and tools.required:
            sampling = replace(sampling, stop=())
        return self._generated(prompt.tokens, most, sampling, grammar)

    async def _answer(self, ask: Ask) -> TextReply:
        if ask.raw:
            assert ask.prompt is not None, "a raw request has a prompt"
            most = ask.sampling.max_new_tokens or self.settings.max_new_tokens
            grammar = await self._compiled(ask.sampling.constraint)
            tokens = await self.workers.run(self._prompts.raw, ask.prompt)
            return self._generated(tokens, most, ask.sampling, grammar)
        conversation = Conversation()
        conversation.ask(ask)
        return await self.begin(conversation, ask.sampling, ask.tools)

    async def _compiled(self, constraint: Constraint | None) -> Any:
        if constraint is None:
            return None
        return await self._compiler.compiled(constraint)

    def _generated(
        self, tokens: list[int], most: int, sampling: Sampling, grammar: Any
    ) -> TextReply:
        usual = self._loaded.sample
        sample = Sample(
            usual.temperature if sampling.temperature is None else sampling.temperature,
            usual.top_p if sampling.top_p is None else sampling.top_p,
            sampling.top_k or 0,
            sampling.seed,
            sampling.top_logprobs,
            grammar,
        )
        if not sample.fits_batch and not self.engine.samples_rows:
            option = sampling.option_of_one_row()
            raise Refused(f"{option}: on this GPU all requests are sampled alike")
        generation = self.engine.generate(tokens, most, sample)
        # A stop string would cut JSON short.
        stop = sampling.stop if sampling.constraint is None else ()
        return TextReply(generation, self._loaded.decode, stop)

    # --- Forms of answers ------------------------------------------------------------------------

    async def chat_events(self, members: Members) -> AsyncGenerator[bytes]:
        """Yield the chunks of a chat completion and ``[DONE]``; closing it cancels the reply.

        Raises:
            ModelError: the request is refused, or the engine fails.
        """
        answer, reply = await self._begin_chat(chat_of({**members, "stream": True}))
        try:
            async with aclosing(answer.events(reply)) as events:
                async for data in events:
                    yield data
        finally:
            reply.close()

    async def _in_openai_form(
        self, answer: Callable[[Members], Awaitable[Reply]], asked: Request | Members
    ) -> Reply:
        """Return an answer; a refusal has the form that OpenAI's clients read."""
        try:
            return await answer(await _members(asked) if isinstance(asked, Request) else asked)
        except ModelError as error:
            return Reply(error_body(error.reason, error.status), JSON, status=error.status)

    async def _chat(self, members: Members) -> Reply:
        asked = chat_of(members)
        answer, reply = await self._begin_chat(asked)
        return await _reply(answer, reply, as_events=asked.stream)

    async def _begin_chat(self, asked: ChatAsk) -> tuple[OpenAIAnswer, TextReply]:
        self._note_ignored(asked.ignored)
        answer = ChatAnswer(
            f"chatcmpl-{uuid.uuid4().hex}",
            asked.model or self._name,
            int(time.time()),
            include_usage=asked.include_usage,
            call_form=None if asked.ask.tools is None else self._prompts.call_form,
            token_names=self._names_for(asked.ask),
        )
        return answer, await self._answer(asked.ask)

    async def _continue(self, members: Members) -> Reply:
        asked = completion_of(members)
        answer = TextAnswer(
            f"cmpl-{uuid.uuid4().hex}",
            asked.model or self._name,
            int(time.time()),
            include_usage=asked.include_usage,
            token_names=self._names_for(asked.ask),
        )
        return await self._completed(asked, answer)

    async def _generate(self, members: Members) -> Reply:
        """Answer a request in the form of text-generation-inference."""
        asked = inputs_of(members)
        before = (asked.ask.prompt or "") if asked.full_text else ""
        return await self._completed(asked, GeneratedAnswer(before))

    async def _completed(self, asked: CompletionAsk | InputsAsk, answer: OpenAIAnswer) -> Reply:
        self._note_ignored(asked.ignored)
        return await _reply(answer, await self._answer(asked.ask), as_events=asked.stream)

    def _names_for(self, ask: Ask) -> TokenNames | None:
        return None if ask.sampling.top_logprobs is None else self._token_names

    def _note_ignored(self, names: frozenset[str]) -> None:
        self._ignored.note(quoted(name) for name in names)


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


async def _reply(answer: OpenAIAnswer, reply: TextReply, *, as_events: bool) -> Reply:
    if as_events:
        return Reply(_Body(reply, server_sent(answer.events(reply))), EVENT_STREAM)
    try:
        return Reply(await answer.whole(reply), JSON)
    finally:
        reply.close()


def _is_text(request: Request) -> bool:
    """Whether a body is plain text by its type, whatever it looks like."""
    media_type, _, _ = request.content_type.partition(";")
    return media_type.strip().lower() == "text/plain"


async def _members(request: Request) -> Members:
    members = members_of(await _body(request))
    if members is None:
        raise Refused("the body must be a JSON object")
    return members


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.body:
        body += chunk
        if len(body) > MAX_TEXT_BYTES:
            raise too_much_text()
    return bytes(body)
