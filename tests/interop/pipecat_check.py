"""Pipecat at SageMaker's own host name, which is a gateway here: voices in and out, errors, ends.

Run by ``make interop-pipecat PIPECAT_PYTHON=…``; docs/how-to/pipecat.md says how to get an
interpreter. Pipecat's services are used as bots use them; the container behind ``partway serve`` is
``deepgram_container``.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from partway.container.testing import serving
from partway.protocol.websocket.close_codes import NORMAL
from tests.interop.aws_sdk import KEY, PRINCIPALS, ROOT, ServedGateway
from tests.interop.deepgram_container import SILENCE, Deepgram, speech, spoken
from tests.interop.pipecat_bot import (
    ADDRESS,
    CLIENT,
    HOST,
    PORT,
    Bot,
    Pipecat,
    environment,
    hosts_file,
    with_hosts,
)
from tests.wire.peers import RawContainer, eventually, switching

#: The first one imports pipecat, which is large.
pytestmark = pytest.mark.timeout(120)

LISTENS = {"endpoint_name": "deepgram"}
SPEAKS = {"endpoint_name": "deepgram"}

#: Seconds in which a pipeline has to end, whatever has happened to its streams. Pipecat itself cuts
#: a cancelled one short after 20, so one that hangs is told from one that ends.
SOON = 15.0

#: Seconds after which a stream that has ended in an error is old: another KeepAlive has been said.
LATE = 6.0

SERVING = ("--tls-port", str(PORT), "--tls-name", HOST)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has pipecat."""
    found = os.environ.get("PIPECAT_PYTHON")
    if not found:
        pytest.fail(
            "PIPECAT_PYTHON names no interpreter: set it to one that has "
            "pipecat-ai[sagemaker,deepgram], as in "
            "make interop-pipecat PIPECAT_PYTHON=/tmp/pipecat/bin/python (docs/how-to/pipecat.md)",
            pytrace=False,
        )
    return str(Path(found).absolute())


@pytest.fixture(scope="module")
async def deepgram(anyio_backend: str) -> Deepgram:
    return Deepgram()


@pytest.fixture(scope="module")
async def raw(anyio_backend: str) -> AsyncIterator[RawContainer]:
    """A container whose bytes a test says itself."""
    async with RawContainer(switching) as container:
        yield container


@pytest.fixture(scope="module")
async def config(deepgram: Deepgram, raw: RawContainer) -> AsyncIterator[str]:
    """The gateway's settings, toward containers that run."""
    async with RawContainer() as container:
        unused = container.port
    async with serving(deepgram) as served:
        yield (
            f'host = "{ADDRESS}"\nshutdown_grace = 0\nshutdown_spread = 0\n\n'
            f'[endpoints.deepgram]\nurl = "{served.url}"\n\n'
            f'[endpoints.raw]\nurl = "http://127.0.0.1:{raw.port}"\n\n'
            f'[endpoints.gone]\nurl = "http://127.0.0.1:{unused}"\n'
        )


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, config: str
) -> AsyncIterator[ServedGateway]:
    directory = tmp_path_factory.mktemp("gateway")
    async with ServedGateway.start(directory, config, PRINCIPALS, *SERVING) as gateway:
        yield gateway
    log = gateway.log.read_text("utf-8")
    for unwanted in ("Traceback", "Logging error", "ERROR", KEY.secret_access_key):
        assert unwanted not in log, log


def pipecat_at(
    gateway: ServedGateway, python: str, directory: Path, address: str = ADDRESS
) -> AbstractAsyncContextManager[Pipecat]:
    """Pipecat in a process that finds the gateway at SageMaker's host name."""
    return Pipecat.start(
        python,
        gateway.ca,
        directory / "pipecat.log",
        program=CLIENT,
        before=with_hosts(hosts_file(directory, address)),
        environment=environment(directory),
    )


@pytest.fixture(scope="module")
async def pipecat(
    tmp_path_factory: pytest.TempPathFactory, gateway: ServedGateway, python: str
) -> AsyncIterator[Pipecat]:
    async with pipecat_at(gateway, python, tmp_path_factory.mktemp("pipecat")) as pipecat:
        yield pipecat


@pytest.fixture(autouse=True)
def afresh(deepgram: Deepgram) -> None:
    """The container as it was at first."""
    deepgram.told.clear()
    deepgram.silence = SILENCE


async def listener(pipecat: Pipecat) -> Bot:
    bot = await pipecat.bot(listens=LISTENS)
    await bot.meets("on_connected")
    return bot


async def speaker(pipecat: Pipecat) -> Bot:
    bot = await pipecat.bot(speaks=SPEAKS)
    await bot.meets("on_connected")
    return bot


# --- What it is for ------------------------------------------------------------------------------


@pytest.mark.clause("2.5-1", "2.5-6")
async def test_transcripts(pipecat: Pipecat, deepgram: Deepgram) -> None:
    bot = await listener(pipecat)
    said = ""
    for word in ("hello", "from", "a", "gateway"):
        await bot.hear(spoken(word))
        said = f"{said} {word}".strip()
        assert await bot.meets("InterimTranscriptionFrame") == [{"text": said}]
    await bot.pause()
    assert await bot.meets("TranscriptionFrame") == [{"text": said}]
    assert await bot.end(SOON) == [{"what": "on_disconnected", "of": "DeepgramSageMakerSTTService"}]
    await eventually(lambda: not deepgram.streams)
    assert deepgram.told == ["audio"] * 4 + ["Finalize", "CloseStream"]


@pytest.mark.clause("1.3-1", "2.5-1")
async def test_audio(pipecat: Pipecat, deepgram: Deepgram) -> None:
    bot = await speaker(pipecat)
    await bot.say("Hello from a gateway of ours.")
    expected = speech("Hello from a gateway of ours. ")  # a sentence ends in a space there
    got = b""
    while (met := await bot.next())["what"] == "TTSAudioRawFrame":
        got += base64.b64decode(met["audio"])
    assert met["what"] == "TTSStoppedFrame"
    assert got == expected
    assert await bot.end(SOON) == [{"what": "on_disconnected", "of": "DeepgramSageMakerTTSService"}]
    await eventually(lambda: not deepgram.streams)
    assert deepgram.told == ["Speak", "Flush", "Close"]


async def test_both_at_once_and_many_of_them(pipecat: Pipecat, deepgram: Deepgram) -> None:
    bots = [await pipecat.bot(listens=LISTENS, speaks=SPEAKS) for _ in range(5)]
    for bot in bots:
        await bot.next()
        await bot.next()
    assert len(deepgram.streams) == 10
    for bot in bots:
        await bot.hear(spoken("ours"))
    for bot in bots:
        assert await bot.meets("InterimTranscriptionFrame") == [{"text": "ours"}]
    for met in await asyncio.gather(*(bot.end(SOON) for bot in bots)):
        assert {thing["what"] for thing in met} == {"on_disconnected"}
    await eventually(lambda: not deepgram.streams)


async def test_a_silent_user_is_waited_for(pipecat: Pipecat, deepgram: Deepgram) -> None:
    """The container gives up whoever says nothing for a while; pipecat says KeepAlive instead."""
    deepgram.silence = 9.0
    bot = await listener(pipecat)
    await eventually(lambda: deepgram.told == ["KeepAlive"] * 2)
    await bot.hear(spoken("hello"))
    assert await bot.meets("InterimTranscriptionFrame") == [{"text": "hello"}]
    await bot.end(SOON)


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "error"),
    [
        ({"endpoint_name": "nobody"}, "there is no endpoint 'nobody'"),
        ({"endpoint_name": "deepgram", "model": "nova-0"}, "with status 400"),
        ({"endpoint_name": "gone"}, "Connection refused"),
    ],
    ids=["no-endpoint", "no-model", "no-container"],
)
@pytest.mark.clause("4-2", "4-3", "4-6")
async def test_refusals(pipecat: Pipecat, asks: dict[str, str], error: str) -> None:
    bot = await pipecat.bot(listens=asks)
    told, refused = await bot.meets("on_pipeline_error", "on_connection_error")
    assert error in refused["text"]
    assert told["category"] == "invalid_request"  # also where there is no status: it is 0
    await bot.hear(spoken("hello"))
    assert await bot.end(SOON) == []


@pytest.mark.clause("4-6")
async def test_a_busy_container_is_asked_again(pipecat: Pipecat, deepgram: Deepgram) -> None:
    deepgram.refuses = 2
    bot = await listener(pipecat)
    assert deepgram.refuses == 0
    await bot.end(SOON)


# --- Ends ----------------------------------------------------------------------------------------

Start = Callable[[Pipecat], Awaitable[Bot]]
End = Callable[[Bot, float], Awaitable[object]]


@pytest.mark.parametrize("end", [Bot.end, Bot.cancel])
@pytest.mark.parametrize("start", [listener, speaker])
@pytest.mark.clause("1.5-1", "2.3-6")
async def test_a_models_error(pipecat: Pipecat, deepgram: Deepgram, start: Start, end: End) -> None:
    """Whenever the user hangs up, with audio and KeepAlive sent meanwhile, all comes to its end."""
    bots = [await start(pipecat) for _ in range(3)]
    deepgram.fail("out of memory")
    for bot in bots:
        (told,) = await bot.meets("on_pipeline_error")
        assert "out of memory" in told["text"]
    await end(bots[0], SOON)
    await asyncio.sleep(LATE)
    await bots[1].hear(*[spoken("hello")] * 100)
    await asyncio.gather(*(end(bot, SOON) for bot in bots[1:]))
    another = await start(pipecat)
    await another.end(SOON)


@pytest.mark.parametrize("start", [listener, speaker])
@pytest.mark.clause("1.5-1")
async def test_a_model_that_says_goodbye(
    pipecat: Pipecat, deepgram: Deepgram, start: Start
) -> None:
    bot = await start(pipecat)
    deepgram.fail("bye", NORMAL)
    (told,) = await bot.meets("on_pipeline_error")
    assert "bye" in told["text"]
    await bot.end(SOON)


@pytest.mark.clause("1.5-3")
async def test_a_container_that_dies(pipecat: Pipecat, raw: RawContainer) -> None:
    bot = await pipecat.bot(listens={"endpoint_name": "raw"})
    model = await raw.stream()
    await bot.meets("on_connected")
    model.abort()
    (told,) = await bot.meets("on_pipeline_error")
    assert "abnormal" in told["text"].lower()
    await bot.end(SOON)


@pytest.mark.clause("1.5-9", "2.3-5")
async def test_a_gateway_that_drains(
    python: str, config: str, deepgram: Deepgram, tmp_path: Path
) -> None:
    """Who ends while the gateway is there ends at once; after that there is only ``cancel()``."""
    address = ADDRESS.replace("127.84.", "127.85.")
    config = config.replace(ADDRESS, address)
    async with AsyncExitStack() as running:
        gateway = await running.enter_async_context(
            ServedGateway.start(tmp_path, config, PRINCIPALS, *SERVING)
        )
        pipecat = await running.enter_async_context(pipecat_at(gateway, python, tmp_path, address))
        bots = [await pipecat.bot(listens=LISTENS, cancel_timeout_secs=3) for _ in range(2)]
        for bot in bots:
            await bot.meets("on_connected")
        gateway.terminate()
        for bot in bots:
            (told,) = await bot.meets("on_pipeline_error")
            assert "draining" in told["text"]
        await bots[0].end(SOON)
        await gateway.ended()
        await bots[1].cancel(SOON)
    assert not deepgram.streams


# --- The page ------------------------------------------------------------------------------------


async def test_the_bot_of_the_page(gateway: ServedGateway, python: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "pipecat.md").read_text("utf-8")
    program, _ = re.findall(r"^```python\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "bot.py").write_text(program, "utf-8")
    words = map(spoken, ("hello", "from", "a", "gateway"))
    (tmp_path / "hello.pcm").write_bytes(b"".join(words))
    said, complained = tmp_path / "stdout", tmp_path / "stderr"
    with said.open("wb") as output, complained.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *with_hosts(hosts_file(tmp_path, ADDRESS)), python, "bot.py", "hello.pcm",
            stdout=output, stderr=errors, cwd=tmp_path,
            env={
                **environment(tmp_path),
                "PATH": os.environ["PATH"],
                "SSL_CERT_FILE": str(gateway.ca),
            },
        )  # fmt: skip
    try:
        async with asyncio.timeout(80):
            await process.wait()
    except TimeoutError:
        pytest.fail(f"the bot still runs; it wrote {said.read_text()}{complained.read_text()}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complained.read_text()
    assert f"```\n{said.read_text()}```" in page
