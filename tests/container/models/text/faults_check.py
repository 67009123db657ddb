"""What goes wrong with a language model, and whose trouble it is. Needs the text extra."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from websockets.exceptions import ConnectionClosed

from partway.container.errors import LoadFailed
from partway.container.models.text.batching import Batching
from partway.container.models.text.model import Text
from partway.container.models.text.settings import TextSettings
from partway.container.testing import Served, serving
from tests.container.models.text.conftest import SETTINGS, ask
from tests.container.models.text.tiny import CONTEXT, END, make_chain

# --- Loading --------------------------------------------------------------------------------------


async def reason_not_loaded(folder: Path, settings: TextSettings = SETTINGS) -> str:
    with pytest.raises(LoadFailed) as caught:
        async with serving(Text(settings), folder):
            pass
    return str(caught.value.__cause__)


@pytest.fixture
def copy(noise: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(noise, tmp_path / "copy"))


async def test_no_model_directory(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    reason = await reason_not_loaded(folder)
    assert reason.startswith(f"there is no config.json in {folder}: put a model there")


async def test_no_weights(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "model.bin")
    assert f"there is no *.safetensors in {copy}" in await reason_not_loaded(copy)


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replace_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])


@pytest.mark.parametrize(
    "damage", [cut_in_half, replace_header, lambda path: path.write_bytes(b"")]
)
async def test_corrupt_safetensors(copy: Path, damage: Callable[[Path], None]) -> None:
    damage(copy / "model.safetensors")
    assert f"{copy}/model.safetensors is damaged: " in await reason_not_loaded(copy)


async def test_weights_of_another_model(copy: Path, tmp_path: Path) -> None:
    """transformers would fill what is missing with noise, and serve that."""
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(
        config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    )
    reason = await reason_not_loaded(copy)
    assert "lack 9 tensors of config.json, such as model.layers.2." in reason


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
async def test_json_that_is_none(copy: Path, name: str) -> None:
    (copy / name).write_text("{")
    what = {"config.json": "config.json", "tokenizer.json": "the tokenizer"}[name]
    assert (await reason_not_loaded(copy)).startswith(f"{what} in {copy} cannot be loaded: ")


async def test_a_model_that_brings_code_is_not_run(copy: Path) -> None:
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(
        config.replace(
            '"model_type": "llama"', '"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}'
        )
    )
    (copy / "own.py").write_text(f"open({str(copy / 'ran')!r}, 'w')\nclass Own: pass\n")
    assert (await reason_not_loaded(copy)).startswith(f"config.json in {copy} cannot be loaded: ")
    assert not (copy / "ran").exists()


async def test_a_device_that_is_not_there(noise: Path) -> None:
    reason = await reason_not_loaded(noise, TextSettings(device="cuda:9"))
    assert reason.startswith("PARTWAY_TEXT_DEVICE is 'cuda:9': ")


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("of 80 GiB 79 are taken"), RuntimeError("can't allocate memory: 8 GB")],
)
async def test_out_of_memory_while_loading(
    noise: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def to(*_: object) -> None:
        raise error

    monkeypatch.setattr("transformers.PreTrainedModel.to", to)
    reason = await reason_not_loaded(noise)
    assert (
        reason == f"the model in {noise} does not fit into memory: {type(error).__name__}: {error}"
    )


async def test_no_memory_for_the_cache(noise: Path) -> None:
    settings = TextSettings(generations=1 << 40, cache_bytes=1 << 50, context=CONTEXT)
    assert (await reason_not_loaded(noise, settings)).startswith("the model in ")


# --- Serving --------------------------------------------------------------------------------------


async def close_of(served: Served, request: str | bytes) -> tuple[int, str]:
    """How the stream ends on which a request is sent."""
    async with served.stream() as client:
        try:
            await client.send(request)
            while True:
                await client.recv()
        except ConnectionClosed as closed:
            assert closed.rcvd is not None, closed  # noqa: PT017
            return closed.rcvd.code, closed.rcvd.reason


#: Requests that cannot be honoured: Close, status, and what both say.
REFUSED: dict[str, tuple[str | bytes, int, int, str]] = {
    "longer than the context": (
        "x" * CONTEXT,
        1008,
        400,
        (
            f"the prompt has {CONTEXT + 3} tokens; "
            f"with the reply it must fit into a context of {CONTEXT}"
        ),
    ),
    "1 MB of text": (
        "x" * 1_000_000,
        1009,
        413,
        "too much text: it must have at most 262144 bytes",
    ),
    "not UTF-8": (b"\xff\xfe", 1007, 400, "the message is not UTF-8: byte 0 is invalid"),
    "nothing but spaces": (" ", 1008, 400, "the prompt: must not be empty"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_cannot_be_honoured(name: str, serve, noise: Path) -> None:
    """It is that client's trouble alone."""
    request, code, status, reason = REFUSED[name]
    _, served = await serve(noise)
    async with served.stream() as neighbour:
        await ask(neighbour, "n", max_new_tokens=200)
        pieces = neighbour.recv_streaming()
        await anext(pieces)
        got, said = await close_of(served, request)
        assert (got, reason in said) == (code, True), said
        answer = await served.invoke(request, "text/plain")
        assert (answer.status, reason in answer.body.decode()) == (status, True), answer
        async for _ in pieces:
            pass


# --- A step that fails ----------------------------------------------------------------------------


class Faulty:
    """Makes the model's steps fail when a certain token is in them.

    Args:
        model: whose.
        letter: fails when it is in a step's input.
        error: what is raised; None makes the logits NaN instead.
    """

    def __init__(self, model: Text, letter: str, error: Exception | None) -> None:
        self._token = model.tokenizer(letter)["input_ids"][0]
        self._error = error
        self.failed = 0
        network = model.engine._loaded.model
        if error is None:
            with torch.no_grad():
                network.model.embed_tokens.weight[self._token] = torch.nan
        else:
            network.model.embed_tokens.register_forward_pre_hook(self._look)

    def _look(self, _module: object, inputs: tuple[Any, ...]) -> None:
        if (inputs[0] == self._token).any():
            self.failed += 1
            raise self._error


@pytest.mark.parametrize(
    ("error", "code", "status", "reason"),
    [
        (torch.OutOfMemoryError("all taken"), 1013, 503, "the model has no memory left"),
        (RuntimeError("secret"), 1011, 500, "the model failed: RuntimeError"),
        (None, 1011, 500, "the model's output is not a number (NaN)"),
    ],
    ids=["out of memory", "an error", "NaN"],
)
async def test_a_step_that_fails_is_one_clients_trouble(
    error: Exception | None, code: int, status: int, reason: str, serve, tmp_path: Path
) -> None:
    """The others get every token, as if nothing had been."""
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    faulty = Faulty(model, "!", error)
    length = 240
    async with asyncio.timeout(50):
        clients = [await served.stream() for _ in range(4)]
        for client in clients:
            await ask(client, "x", max_new_tokens=length)
        begun = [client.recv_streaming() for client in clients]
        texts = [[await anext(pieces)] for pieces in begun]
        assert (await close_of(served, "what?!"))[0] == code
        answer = await served.invoke("!", "text/plain")
        assert (answer.status, answer.body.decode()[: len(reason)]) == (status, reason)
        for text, pieces in zip(texts, begun, strict=True):
            text += [piece async for piece in pieces]
            assert "".join(text) == ("abcdef" * length)[:length]
        assert faulty.failed == (0 if error is None else 4), "once together, and once alone"
        for client in clients:
            await client.close()
        assert (await served.invoke("x", "text/plain")).body == b"abcdef" * 10 + b"abcd"
    assert model.healthy()
    assert not model.engine.running


async def test_an_engine_that_fails_whatever_it_is_asked(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform hears of it, and replaces the container."""
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    Faulty(model, END, RuntimeError("broken"))
    async with asyncio.timeout(50):
        answers = [await served.invoke("x", "text/plain") for _ in range(2)]
    assert {answer.status for answer in answers} == {503}
    with pytest.raises(Exception, match="the language model failed: RuntimeError"):
        model.healthy()


async def test_an_engine_that_cannot_be_started_again(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    Faulty(model, "x", RuntimeError("broken"))

    def fail(*_: object) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr("partway.container.models.text.batching.Batching.start", fail)
    answer = await served.invoke("x", "text/plain")
    assert answer.status == 503
    assert answer.body == b"the language model cannot be started again: RuntimeError\n"


async def test_a_thread_that_ends_without_a_word(serve, tmp_path: Path) -> None:
    """What it had under way goes on all the same."""
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    async with served.stream() as client:
        await ask(client, "x", max_new_tokens=240)
        pieces = client.recv_streaming()
        text = await anext(pieces)
        model.engine._batching._manager.background_thread_status.request_stop(2, 0)
        model.engine._batching._manager.output_router.deliver = lambda _output: None
        async with asyncio.timeout(30):
            text += "".join([piece async for piece in pieces])
    assert text == "abcdef" * 40


async def test_the_cache_of_a_failed_engine_is_let_go_before_there_is_a_new_one(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU there is no room for two."""
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    Faulty(model, "!", RuntimeError("broken"))
    old = weakref.ref(model.engine._batching._manager.batch_processor.cache)
    left: list[object] = []
    start = Batching.start

    def look(batching: Batching) -> None:
        gc.collect()
        left.append(old())
        start(batching)

    monkeypatch.setattr(Batching, "start", look)
    monkeypatch.setattr(
        logging.root.manager, "disable", logging.CRITICAL
    )  # pytest keeps tracebacks
    assert (await served.invoke("!", "text/plain")).status == 500
    assert left
    assert left[0] is None
    assert (await served.invoke("x", "text/plain")).status == 200


async def test_a_reply_that_gets_nothing(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    monkeypatch.setattr("partway.container.models.text.engine.STALL_TIMEOUT", 0.1)
    monkeypatch.setattr("partway.container.models.text.engine.WATCH_INTERVAL", 0.02)
    with monkeypatch.context() as lost:
        lost.setattr(model.engine._batching, "submit", lambda *_: True)
        answer = await served.invoke("x", "text/plain")
    assert (answer.status, answer.body) == (504, b"the language model computed nothing for 0.1 s\n")
    assert not model.engine.running
    monkeypatch.undo()
    assert (await served.invoke("x", "text/plain")).status == 200
