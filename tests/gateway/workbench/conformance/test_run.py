"""In which order checks are tried, and what becomes of each."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace

import h11
import pytest

from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance import (
    raw_connection,
    raw_stream,
    started_container,
    trial,
)
from partway.gateway.workbench.conformance.check import Check, Need
from partway.gateway.workbench.conformance.checks import ALL, wear
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.probes import BUILT_IN, Probe
from partway.gateway.workbench.conformance.raw_connection import Link
from partway.gateway.workbench.conformance.raw_stream import Peer
from partway.gateway.workbench.conformance.run import (
    Report,
    Result,
    Run,
    blocked_by,
    chosen,
    in_turn,
)
from partway.gateway.workbench.conformance.started_container import Footprint
from partway.gateway.workbench.conformance.subject import Launched, Subject
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried, Verdict

NOWHERE = Subject(Address("127.0.0.1", 9))
ECHO = BUILT_IN["echo"]


async def kept(_trial: Trial) -> None:
    pass


async def broken(_trial: Trial) -> None:
    raise Broken("it is not so")


def check(id: str, body: Callable[[Trial], Awaitable[None]] = kept, **members: object) -> Check:
    usual = {"clauses": ("1.1-2",), "severity": Severity.MUST, "title": id, "remedy": "mend it"}
    return Check(id=id, body=body, **(usual | members))


async def verdicts(*checks: Check, **options: object) -> dict[str, Verdict]:
    report = await Run(checks, options.pop("probe", ECHO), **options).run(NOWHERE)
    return {result.check.id: result.verdict for result in report.results}


# --- The checks there are -------------------------------------------------------------------------


def test_each_is_behind_those_it_requires() -> None:
    seen: set[str] = set()
    for each in ALL:
        assert set(each.requires) <= seen, each.id
        assert each.id not in seen
        seen.add(each.id)


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_each_says_what_it_is_in_a_line(each: Check, contract_clauses: set[str]) -> None:
    assert set(each.clauses) <= contract_clauses
    assert each.clauses
    for line in (each.title, each.remedy):
        assert line
        assert "\n" not in line
        assert len(line) <= 140
        assert not line.endswith(".")


@pytest.fixture(scope="module")
def contract_clauses() -> set[str]:
    from tests.conftest import contract_ids

    return set(contract_ids())


# --- Verdicts -------------------------------------------------------------------------------------


async def test_what_requires_a_broken_one_is_blocked() -> None:
    found = await verdicts(
        check("a", broken),
        check("b", requires=("a",)),
        check("c", requires=("b",)),
        check("d"),
    )
    assert found == {
        "a": Verdict.FAIL,
        "b": Verdict.BLOCKED,
        "c": Verdict.BLOCKED,
        "d": Verdict.PASS,
    }


async def test_one_that_cannot_be_tried_blocks_nothing() -> None:
    async def untried(_trial: Trial) -> None:
        raise Untried("not here")

    found = await verdicts(check("a", untried), check("b", requires=("a",)))
    assert found == {"a": Verdict.SKIP, "b": Verdict.PASS}


@pytest.mark.parametrize("need", [Need.PROCESS, Need.ECHO])
async def test_what_is_not_at_hand(need: Need) -> None:
    chat = Probe("chat", ("hello",))
    found = await verdicts(check("a", broken, needs=frozenset({need})), probe=chat)
    assert found == {"a": Verdict.SKIP}


async def test_a_note_is_none_that_fails() -> None:
    report = await Run([check("a"), check("b", broken, severity=Severity.NOTE)], ECHO).run(NOWHERE)
    assert [each.verdict for each in report.results] == [Verdict.PASS, Verdict.NOTE]
    assert report.conformant


@pytest.mark.parametrize(
    ("severity", "conformant"), [(Severity.MUST, False), (Severity.SHOULD, True)]
)
async def test_only_a_must_makes_it_not_conformant(severity: Severity, conformant: bool) -> None:
    report = await Run([check("a"), check("b", broken, severity=severity)], ECHO).run(NOWHERE)
    assert report.conformant is conformant
    assert report.status == (0 if conformant else 1)


def test_of_nothing_tried_nothing_is_said() -> None:
    assert not Report([Result(check("a"), Verdict.SKIP)]).conformant


async def test_one_that_takes_too_long() -> None:
    async def hang(_trial: Trial) -> None:
        await asyncio.Event().wait()

    run = Run([check("a", hang, limit=0.01)], ECHO)
    (result,) = (await run.run(NOWHERE)).results
    assert (result.verdict, result.said) == (Verdict.FAIL, "the check did not end within 0.01 s")


async def test_what_was_wrong_comes_with_its_evidence() -> None:
    async def connect(trial: Trial) -> None:
        async with trial.link("a connection"):
            pass

    (result,) = (await Run([check("a", connect)], ECHO).run(NOWHERE)).results
    assert result.said.startswith("nothing accepts connections at 127.0.0.1:9: ")
    assert result.remedy == "mend it"
    assert [exchange.title for exchange in result.exchanges] == ["a connection"]


async def test_one_that_only_waits_is_tried_beside_the_others() -> None:
    went_on = asyncio.Event()

    async def wait(_trial: Trial) -> None:
        await went_on.wait()

    async def go_on(_trial: Trial) -> None:
        went_on.set()

    checks = [check("a", wait, aside=True, limit=5), check("b", go_on), check("shutdown.c")]
    report = await Run(checks, ECHO).run(NOWHERE)
    assert [each.check.id for each in report.results] == ["b", "a", "shutdown.c"]
    assert report.count(Verdict.PASS) == 3


async def test_one_that_waits_is_tried_no_longer_than_whoever_takes_the_checks() -> None:
    ended = asyncio.Event()

    async def wait(_trial: Trial) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def let_it_begin(_trial: Trial) -> None:
        await asyncio.sleep(0)

    first, waiting = check("a", let_it_begin), check("b", wait, aside=True)
    run = Run([first, waiting], ECHO)
    assert (await run.take(first, NOWHERE)).verdict is Verdict.PASS
    async with asyncio.timeout(5):
        await run.aclose()
    assert ended.is_set()
    assert list(run.results) == ["a"]


async def test_taken_one_by_one_each_comes_after_those_it_requires_and_once() -> None:
    tried = []

    def noted(id: str, **members: object) -> Check:
        async def body(_trial: Trial) -> None:
            tried.append(id)

        return check(id, body, **members)

    a, b, c = noted("a"), noted("b", requires=("a",)), noted("c", requires=("b",))
    run = Run([a, b, c], ECHO)
    assert (await run.take(c, NOWHERE)).check is c
    assert (await run.take(a, NOWHERE)).check is a
    assert tried == ["a", "b", "c"]
    assert list(run.results) == ["a", "b", "c"]


async def test_what_blocks_is_named_by_its_root() -> None:
    checks = [check("a", broken), check("b", requires=("a",)), check("c", requires=("b",))]
    run = Run(checks, ECHO)
    result = await run.take(checks[2], NOWHERE)
    assert (result.verdict, result.said) == (Verdict.BLOCKED, "a did not pass")
    assert blocked_by(checks[2], run.results) is run.results["a"]
    assert blocked_by(checks[0], run.results) is None


def test_those_of_the_end_come_last_and_those_that_wait_before_them() -> None:
    checks = [check("a", aside=True), check("shutdown.b"), check("c")]
    assert [each.id for each in in_turn(checks, fast=False)] == ["c", "a", "shutdown.b"]
    assert [each.id for each in in_turn(checks, fast=True)] == ["a", "c", "shutdown.b"]


# --- Which ----------------------------------------------------------------------------------------


def test_those_that_are_asked_for_and_what_they_require() -> None:
    all_of_them = [
        check("a.x"),
        check("a.y", requires=("a.x",)),
        check("b.z", requires=("a.y",)),
        check("c.w"),
    ]
    assert [each.id for each in chosen(all_of_them, None)] == ["a.x", "a.y", "b.z", "c.w"]
    assert [each.id for each in chosen(all_of_them, ["b.z"])] == ["a.x", "a.y", "b.z"]
    assert [each.id for each in chosen(all_of_them, ["a"])] == ["a.x", "a.y"]
    with pytest.raises(ValueError, match=r"there is no check 'a\.q'"):
        chosen(all_of_them, ["a.q"])


# --- A container's process ------------------------------------------------------------------------

DYING = """
import os, socket, sys
assert sys.argv[1:] == ["serve"], "nothing is appended"
server = socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])))
while True:
    connection, _ = server.accept()
    if connection.recv(100) == b"die":
        print("a last word", flush=True)
        os._exit(7)
"""


@pytest.fixture
async def dying(tmp_path: Path):
    program = tmp_path / "dying.py"
    program.write_text(DYING)
    launched = Launched([sys.executable, str(program), "serve"])
    yield Subject(await launched.start(), process=launched)
    await launched.aclose()


async def test_a_container_that_dies_is_that_checks_fault_and_starts_again(dying: Subject) -> None:
    async def kill(trial: Trial) -> None:
        async with trial.link("its end") as link:
            await link.send(b"die", "die")
            await link.read(5)

    async def connect(trial: Trial) -> None:
        async with trial.link("a connection"):
            pass

    first = dying.process.pid
    await dying.process.listening(10)
    report = await Run([check("a", kill), check("b", connect)], ECHO).run(dying)
    a, b = report.results
    assert a.verdict is Verdict.FAIL
    assert a.said == "the container ended, with status 7"
    assert b.verdict is Verdict.PASS
    assert dying.process.pid not in (None, first)


PATIENT = """
import os, socket, threading
server = socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])))
def serve(connection):
    while said := connection.recv(100):
        if said == b"die":
            os._exit(7)
while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""


async def test_a_container_that_dies_is_not_the_fault_of_one_beside(tmp_path: Path) -> None:
    """One that waits on a stream loses it too: it has another try."""
    tries = 0
    waiting = asyncio.Event()

    async def silent(trial: Trial) -> None:
        nonlocal tries
        tries += 1
        async with trial.link("silence") as link:
            waiting.set()
            try:
                await link.read(0.3 if tries > 1 else 10)
            except TimeoutError:
                return
        raise Broken("the connection ended")

    async def kill(trial: Trial) -> None:
        await waiting.wait()
        async with trial.link("its end") as link:
            await link.send(b"die", "die")
            await link.read(5)

    (tmp_path / "patient.py").write_text(PATIENT)
    launched = Launched([sys.executable, str(tmp_path / "patient.py")])
    try:
        subject = Subject(await launched.start(), process=launched)
        await launched.listening(10)
        checks = [check("a", silent, aside=True), check("b", kill)]
        report = await Run(checks, ECHO).run(subject)
    finally:
        await launched.aclose()
    assert {each.check.id: each.said for each in report.results} == {
        "b": "the container ended, with status 7",
        "a": "",
    }
    assert tries == 2


async def test_after_a_check_of_its_end_the_container_is_there_again(dying: Subject) -> None:
    async def end(trial: Trial) -> None:
        await trial.process.kill()

    async def connect(trial: Trial) -> None:
        async with trial.link("a connection"):
            pass

    checks = [check("a", connect), check("shutdown.b", end), check("c", connect)]
    await dying.process.listening(10)
    run = Run(checks, ECHO)
    taken = [(await run.take(checks[at], dying)).verdict for at in (0, 1, 2)]
    assert taken == [Verdict.PASS] * 3


async def test_a_container_that_is_worn_out_is_started_again(dying: Subject) -> None:
    first = dying.process.pid
    running: list[int | None] = []

    async def look(trial: Trial) -> None:
        running.append(trial.process.pid)

    await dying.process.listening(10)
    checks = [
        check("a", broken),
        check("b", look),
        check("c", broken, wears=True),
        check("d", look),
    ]
    await Run(checks, ECHO).run(dying)
    assert running[0] == first
    assert running[1] not in (first, None)


HOLDING = """
import os, socket, subprocess, sys, threading
server = socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])))
kept = []
while True:
    connection, _ = server.accept()
    match connection.recv(100):
        case b"descriptors":
            kept += [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
        case b"threads":
            for _ in range(5):
                threading.Thread(target=threading.Event().wait, daemon=True).start()
        case b"zombie":
            os.waitid(os.P_PID, os.spawnlp(os.P_NOWAIT, "true", "true"), os.WEXITED | os.WNOWAIT)
        case b"orphan":
            subprocess.run(["sh", "-c", "sleep 60 & sleep 60 &"])
        case b"memory":
            kept.append(os.urandom(8 << 20))
    connection.send(b"done")
    connection.close()
"""


async def test_what_a_container_holds(tmp_path: Path) -> None:
    """Of all its processes, of those that have ended and those that nobody started, it seems."""
    (tmp_path / "holding.py").write_text(HOLDING)
    launched = Launched([sys.executable, str(tmp_path / "holding.py")])
    try:
        address = await launched.start()
        assert await launched.listening(10) is not None

        async def more_after(said: bytes) -> Footprint:
            before = launched.footprint()
            async with raw_connection.link_to(address, NotedExchange("")) as asked:
                await asked.send(said, "")
                assert await asked.read(10) == b"done"
            both = zip(astuple(before), astuple(launched.footprint()), strict=True)
            return Footprint(*(has - had for had, has in both))

        # The connection before may be closed meanwhile.
        assert (await more_after(b"descriptors")).descriptors == pytest.approx(20, abs=1)
        assert (await more_after(b"threads")).tasks == 5
        assert (await more_after(b"zombie")).tasks == 1
        assert (await more_after(b"orphan")).tasks == 2
        assert (await more_after(b"memory")).memory >= 8 << 20
    finally:
        await launched.aclose()
    assert launched.footprint() is None


async def test_what_it_printed_is_told(dying: Subject) -> None:
    async def kill(trial: Trial) -> None:
        async with trial.link("its end") as link:
            await link.send(b"die", "die")
            await link.read(5)
        raise Broken("gone")

    await dying.process.listening(10)
    (result,) = (await Run([check("a", kill)], ECHO).run(dying)).results
    (exchange,) = result.exchanges
    assert [step.what for step in exchange.steps] == ["die", "end of the connection", "gone"]
    assert (result.said, result.output) == ("gone", "a last word\n")


async def test_artifacts_that_were_written(dying: Subject) -> None:
    assert dying.process.changed_artifacts() == []
    written = dying.process.model_dir / "cache"
    dying.process.model_dir.chmod(0o700)
    written.write_text("x")
    assert dying.process.changed_artifacts() == [str(written)]


async def test_who_never_accepts_is_waited_for_no_longer_than_it_may(monkeypatch) -> None:
    monkeypatch.setattr(started_container, "CONNECT_TIMEOUT", 0.1)
    launched = Launched(["none"])
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as full:
        launched.address = Address(*server.getsockname())
        for _ in range(4):  # then its backlog is full, and the system drops what comes
            waiting = full.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        async with asyncio.timeout(5):
            assert not await launched.accepts()
    await launched.aclose()


# --- A container that means it --------------------------------------------------------------------


class Unheard:
    """A writer of which nothing is read."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


def told(data: bytes) -> Peer:
    """A stream on which a container has said this."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    return Peer(Link(reader, Unheard(), NotedExchange("a stream")), {}, b"")


async def test_the_answer_to_a_close_has_no_answer() -> None:
    """A second Close would meet a closed socket, and the connection end by a reset."""
    heard = bytearray()
    over = asyncio.Event()

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readexactly(8))
        writer.write(b"\x88\x02\x03\xe8")
        heard.extend(await reader.read())
        writer.close()
        over.set()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        address = Address(*server.sockets[0].getsockname())
        async with raw_connection.link_to(address, NotedExchange("a stream")) as connection:
            stream = Peer(connection, {}, b"")
            await stream.send_close(1000)
            assert (await stream.closed()).code == 1000
        async with asyncio.timeout(10):
            await over.wait()
    assert len(heard) == 8


async def test_a_message_without_an_end_is_read_no_further_than_it_may(monkeypatch) -> None:
    monkeypatch.setattr(raw_stream, "MAX_FRAME", 1000)
    with pytest.raises(Broken, match="a message of the container has more than 1000 bytes"):
        await told(b"\x01\x01a" + (b"\x00\x64" + b"a" * 100) * 10).message()


async def test_pongs_without_an_end_are_not_all_kept(monkeypatch) -> None:
    monkeypatch.setattr(raw_stream, "MAX_PONGS", 10)
    with pytest.raises(Broken, match="the container sent more than 10 Pongs"):
        await told(b"\x8a\x00" * 11).message()


async def test_an_answer_in_pieces_without_an_end_is_not_all_kept(monkeypatch) -> None:
    monkeypatch.setattr(raw_connection, "MAX_PIECES", 10)
    stream = told(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 11)
    with pytest.raises(Broken, match="comes in more than 10 pieces"):
        await raw_connection.read_answer(stream.link, "GET", time.monotonic(), 5)


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
ONLY_INTERIM = r"^more than 16 interim responses came, and no answer to GET; the last was 103$"


async def test_interim_responses_without_an_end_are_no_answer() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    link = told(EARLY * 16 + answer).link
    assert (await raw_connection.read_answer(link, "GET", time.monotonic(), 5)).status == 200
    for ask in (
        raw_connection.read_answer(told(EARLY * 20).link, "GET", time.monotonic(), 5),
        raw_connection.ask(told(EARLY * 20).link, "GET", "/ping", {}),
        raw_stream.upgrade(told(EARLY * 20).link, "/", {}),
    ):
        with pytest.raises(Broken, match=ONLY_INTERIM):
            await ask


async def test_bytes_that_always_come_do_not_prolong_a_wait() -> None:
    """Bytes that have arrived are read at once, so each read must look at the clock."""
    for data, waiting in (
        (EARLY, lambda link: raw_connection.read_answer(link, "GET", time.monotonic() - 5, 5)),
        (b"HTTP", lambda link: raw_stream.upgrade(link, "/", {}, timeout=0)),
        (b"\x82\x00", lambda link: Peer(link, {}, b"").closed(timeout=0)),
        (b"\x82\x00", lambda link: Peer(link, {}, b"").rest(timeout=0)),
        (b"\x89\x00", lambda link: Peer(link, {}, b"").message(timeout=0)),
    ):
        link = told(data * 8).link
        with pytest.raises((TimeoutError, Broken), match=r"^$|no answer to the upgrade within 0 s"):
            await waiting(link)
        assert await link.read(1) == data * 8


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
async def test_an_answer_of_another_version_is_none(version) -> None:
    """The gateway takes none either."""
    stream = told(f"HTTP/{version} 200 OK\r\nContent-Length: 0\r\n\r\n".encode())
    with pytest.raises(h11.RemoteProtocolError, match=rf"HTTP/{version} was given; it must be"):
        await raw_connection.read_answer(stream.link, "GET", time.monotonic(), 5)


def test_what_is_expected_is_not_looked_for_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(trial, "MATCH_TIMEOUT", 0.05)
    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    with pytest.raises(Broken, match=r"in a reply of 61 characters did not end within 0\.05 s"):
        trial._matches("(a+)+$", "a" * 60 + "b")
    assert trial._matches("a+", "a")
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(left, abs=5)


@pytest.mark.parametrize(
    ("seconds", "often"),
    [
        pytest.param([0.001] * 300, 300, id="quick"),
        pytest.param([2.0, 0.001] * 150, 300, id="on a busy machine"),
        pytest.param([0.05] * 300, 41, id="slow"),
        pytest.param([5.0] * 300, 20, id="slower"),
    ],
)
async def test_what_is_done_often_is_done_less_often_where_it_takes_long(
    seconds: list[float], often: int, monkeypatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(wear, "time", SimpleNamespace(monotonic=lambda: now))
    trial = Trial(NOWHERE, ECHO, fast=True)
    done = 0
    async for done in wear.times(trial, len(seconds)):
        now += seconds[done - 1]
    assert done == often


# --- What was said comes back ---------------------------------------------------------------------


async def echo_of(data: bytes, message: str | bytes) -> Broken:
    """What is wrong when a container answers a message by these bytes."""
    with pytest.raises(Broken) as raised:
        await Trial(NOWHERE, ECHO).echoed(told(data), message, "asked", 1)
    return raised.value


async def test_a_text_is_shown_so_that_look_alikes_differ() -> None:
    said = (await echo_of(b"\x81\x02\xc3\xa9", "e\u0301")).what
    assert (
        said == "asked: text '\\xe9' came back (1 characters), not text 'e\\u0301' (2 characters)"
    )


async def test_of_a_long_message_it_is_said_where_it_differs() -> None:
    said = (await echo_of(b"\x82\x7d" + bytes(124) + b"\x01", bytes(125))).what
    assert said == "asked: from place 124 of 125 on binary 01 came back, not binary 00"


async def test_a_message_that_is_too_large_has_a_remedy_of_its_own() -> None:
    broken = await echo_of(b"\x88\x02\x03\xf1", "x")
    assert broken.what == "asked: no answer came, but Close 1009"
    assert broken.remedy == trial.RAISE_LIMIT
    assert (await echo_of(b"\x88\x02\x03\xe8", "x")).remedy is None


async def test_a_long_message_that_is_cut_has_a_remedy_of_its_own() -> None:
    broken = await echo_of(b"\x81\x01a", "a" * 5000)
    assert broken.remedy is not None
    assert "your buffers must not cut a message" in broken.remedy
    assert (await echo_of(b"\x81\x01a", "a ")).remedy is None


async def test_who_answers_before_all_is_said_is_heard() -> None:
    """Else a container that writes while nobody reads would have to take it all before."""
    both = asyncio.Barrier(2)
    ended = asyncio.Event()

    async def say() -> None:
        try:
            await both.wait()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with asyncio.timeout(5), trial.meanwhile(say()):
        await both.wait()
    assert ended.is_set()


async def test_what_becomes_of_the_sending_is_not_what_is_heard() -> None:
    async def say() -> None:
        raise Broken("the connection is gone")

    with pytest.raises(raw_stream.Closed):
        async with trial.meanwhile(say()):
            await told(b"\x88\x02\x03\xf1").message(1)


def test_many_bytes_have_more_time() -> None:
    assert raw_connection.patience_with(100) == raw_connection.PATIENCE
    assert raw_connection.patience_with(16 << 20) == raw_connection.PATIENCE + 16
