"""The checks of OpenAI's path, on containers in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from partway.container.models.chat.model import Chat
from partway.container.models.chat.settings import ChatSettings
from partway.container.testing import serving
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance import openai_requests
from partway.gateway.workbench.conformance.checks import openai
from partway.gateway.workbench.conformance.openai_requests import events_of, json_object
from partway.gateway.workbench.conformance.probes import BUILT_IN
from partway.gateway.workbench.conformance.run import Result, Run
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.verdict import Broken, Verdict
from tests.gateway.workbench.conformance.mutants import openai as mutants
from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
from tests.gateway.workbench.conformance.mutants.openai import ChatContainer, Refused

CLAUSES = {check.id: check.clauses for check in openai.checks}
OURS = {name: each for name, each in MUTANTS.items() if each.root & CLAUSES.keys()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "PAUSE", 0.002)


@asynccontextmanager
async def running(container: type[Container]) -> AsyncIterator[Subject]:
    made = container(0, "")
    server = await made.listen()
    try:
        yield Subject(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
    finally:
        server.close()
        await made.leave()


async def results(container: type[Container], *only: str) -> dict[str, Result]:
    checks = [each for each in openai.checks if not only or each.id in only]
    async with running(container) as subject:
        report = await Run(checks, BUILT_IN["echo"]).run(subject)
    return {each.check.id: each for each in report.results}


async def result(container: type[Container], id: str) -> Result:
    return (await results(container, id))[id]


# --- Good and bad ones ----------------------------------------------------------------------------


@pytest.mark.clause("1.7-1", "1.7-2", "1.7-3", "1.7-4", "1.7-5")
async def test_a_container_that_keeps_the_clauses_passes() -> None:
    found = await results(ChatContainer)
    assert {each.verdict for each in found.values()} == {Verdict.PASS}


def faulty() -> list[Any]:
    """The mutants, each with the clauses of its checks; in this process none may end it."""
    return [
        pytest.param(name, marks=pytest.mark.clause(*{id for r in each.root for id in CLAUSES[r]}))
        for name, each in OURS.items()
        if not name.startswith("dies-")
    ]


@pytest.mark.parametrize("name", faulty())
async def test_each_fault_fails_its_check_alone(name: str) -> None:
    found = await results(OURS[name].container)
    wrong = {id for id, each in found.items() if each.verdict in (Verdict.FAIL, Verdict.NOTE)}
    assert wrong == OURS[name].root, {id: found[id].said for id in wrong}


async def test_the_model_chat_keeps_them() -> None:
    """The server behind it serves chats alone, and so does the model."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running(ChatContainer))
        settings = ChatSettings(upstreams=(f"http://{engine.address}/v1",))
        served = await stack.enter_async_context(serving(Chat(settings)))
        subject = Subject(container_address(served.url))
        report = await Run(openai.checks, BUILT_IN["echo"]).run(subject)
    assert {each.verdict for each in report.results} == {Verdict.PASS}


# --- Containers that do not serve it --------------------------------------------------------------


class AnswersAnything(Container):
    """Echoes each body, with its path, on every path."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        await self.answer(writer, 200, request.path.encode() + request.body)
        return False


class TakesNoBody(Container):
    """Ends the connection of each request with a body."""

    async def serve(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        return not request.body and await super().serve(request, reader, writer)


@pytest.mark.parametrize("container", [Container, AnswersAnything, TakesNoBody])
async def test_a_container_without_the_path_skips_the_checks(container: type[Container]) -> None:
    found = await results(container)
    assert {each.verdict for each in found.values()} == {Verdict.SKIP}
    assert found["openai.chat"].said == "POST /v1/chat/completions is not served"
    assert found["openai.paths"].said == "no path of it is served"


async def test_that_it_is_not_served_is_asked_once() -> None:
    asked: list[str] = []

    class Counts(Container):
        async def serve(
            self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> bool:
            asked.append(request.path)
            return await super().serve(request, reader, writer)

    await results(Counts)
    assert asked.count("/v1/chat/completions") == 1


async def test_a_container_that_wants_a_key_serves_the_path() -> None:
    found = await result(OURS["wants-key"].container, "openai.chat")
    assert "with 401" in found.said
    assert found.remedy.startswith("require no key")


# --- Words ----------------------------------------------------------------------------------------


async def test_the_note_names_what_aws_does_not_route() -> None:
    found = await result(OURS["more-paths"].container, "openai.paths")
    assert found.verdict is Verdict.NOTE
    assert found.said == (
        "AWS routes POST /v1/chat/completions alone; only Partway routes GET /v1/models, POST "
        "/v1/embeddings"
    )


async def test_a_container_without_chat_is_told_what_aws_routes() -> None:
    found = await results(OURS["only-realtime"].container)
    assert found["openai.chat"].verdict is Verdict.SKIP
    assert found["openai.paths"].said == (
        "AWS routes POST /v1/chat/completions alone, which the container does not serve; only "
        "Partway routes WebSocket /v1/realtime"
    )


async def test_an_error_among_the_events_is_shown() -> None:
    class Fails(ChatContainer):
        def last_chunk(self) -> dict[str, Any]:
            return {"error": {"message": "no memory"}}

    found = await result(Fails, "openai.stream")
    assert '{"error": {"message": "no memory"}}' in found.said


async def test_a_model_that_is_cut_while_it_thinks_has_answered() -> None:
    class Thinks(ChatContainer):
        def choice(self, text: str) -> dict[str, Any]:
            message = {"role": "assistant", "content": None, "reasoning": text}
            return {"index": 0, "message": message, "finish_reason": "length"}

    assert (await result(Thinks, "openai.chat")).verdict is Verdict.PASS


async def test_a_member_may_be_refused_by_name() -> None:
    class Refuses(ChatContainer):
        def read(self, body: bytes) -> dict[str, Any]:
            asked = super().read(body)
            if unknown := asked.keys() - mutants.KNOWN:
                raise Refused(400, f"{', '.join(unknown)}: unknown")
            return asked

    assert (await result(Refuses, "openai.members")).verdict is Verdict.PASS


async def test_an_answer_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()

    class Hangs(ChatContainer):
        async def whole(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
            await over.wait()

    monkeypatch.setattr(openai_requests, "ANSWER_TIMEOUT", 0.2)
    found = await result(Hangs, "openai.chat")
    over.set()
    assert found.said.startswith("POST /v1/chat/completions: the container sent no complete answer")


async def test_events_that_never_begin_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()

    class Comments(ChatContainer):
        async def events(self, asked: dict[str, Any]) -> AsyncIterator[bytes]:
            yield b": soon\n\n"
            await over.wait()

    monkeypatch.setattr(openai, "ANSWER_TIMEOUT", 0.2)
    found = await result(Comments, "openai.after")
    over.set()
    assert found.said == "answer 1 of 8 that is cut: no event came within 0.2 s"


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"", []),
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\ndata:  b\r\rdata: c\n\n", [b"a", b" b", b"c"]),
        (b": wait\n\nevent: e\nid: 1\ndata: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: [DONE]", [b"a"]),
    ],
)
def test_events(body: bytes, data: list[bytes]) -> None:
    assert events_of(body) == data


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_object(data: bytes) -> None:
    with pytest.raises(Broken, match=r"^the body is .*; it must be a JSON object$"):
        json_object(data, "the body")
