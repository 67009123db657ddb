"""Servers that chat clients ask: endpoints of one gateway, and LiteLLM's proxy."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from partway.protocol.signatures.api_keys import make_api_key
from partway.protocol.signatures.verification import Credentials
from tests.interop.aws_sdk import KEY, REGION, ROOT, ServedGateway
from tests.interop.chat_clients.engine import Engine
from tests.interop.served_api import PRINCIPALS, free_port, listens

#: Seconds until a server must serve: torch is imported in ten, on a busy machine in many more.
READY = 400.0

PROXY_KEY = "sk-of-the-proxy"

#: LiteLLM's proxy in front of the stub.
_PROXY = """
model_list:
  - model_name: stub
    litellm_params: {{model: openai/stub, api_base: "{url}/v1", api_key: unused}}
litellm_settings: {{num_retries: 0, telemetry: false}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
general_settings: {{master_key: {key}}}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, as a client finds it.

    Attributes:
        name: ``stub``, ``chat``, ``text`` or ``proxy``.
        base: the base URL for clients of OpenAI's API.
        model: the name that such a client uses.
        key: what it authenticates with.
        gateway: the gateway's URL for clients of InvokeEndpoint; empty where there is none.
    """

    name: str
    base: str
    model: str
    key: str
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that is served.

    Attributes:
        engine: the stub engine behind ``stub``, ``chat`` and ``proxy``.
        gateway: what serves the endpoints.
        servers: by name.
    """

    engine: Engine
    gateway: ServedGateway
    servers: dict[str, Server]


@asynccontextmanager
async def fleet(
    directory: Path,
    *,
    text_python: str = "",
    text_model: Path | None = None,
    proxy: str = "",
) -> AsyncIterator[Fleet]:
    """Serve the stub engine, ``chat`` in front of it, and more where that is installed.

    Args:
        directory: for files.
        text_python: an interpreter that has the extra ``text``; empty for no endpoint ``text``.
        text_model: the folder of its model.
        proxy: an interpreter that has LiteLLM's proxy; empty for none.
    """
    async with AsyncExitStack() as running:
        engine = await running.enter_async_context(Engine.start())
        tables = [f'[endpoints.stub]\nurl = "{engine.url}"', _chat(engine.url)]
        names = ["stub", "chat"]
        state = directory / "state"
        if text_python:
            assert text_model is not None
            tables.append(_text(text_python, text_model))
            names.append("text")
        gateway = await running.enter_async_context(
            ServedGateway.start(
                directory, "\n\n".join(tables), PRINCIPALS, "--data-dir", str(state)
            )
        )
        key = make_api_key(
            Credentials(KEY.access_key_id, KEY.secret_access_key), region=REGION, now=time.time()
        )
        servers = {
            name: Server(
                name, f"{gateway.http}/endpoints/{name}/openai/v1", name, key, gateway.http
            )
            for name in names
        }
        for name in names:
            await in_service(name, state)
        if proxy:
            url = await running.enter_async_context(_proxy(proxy, engine.url, directory))
            servers["proxy"] = Server("proxy", f"{url}/v1", "stub", PROXY_KEY)
        yield Fleet(engine, gateway, servers)


async def tiny_model(python: str, folder: Path) -> Path:
    """Make a model that says a sentence again and again; return its folder.

    Args:
        python: an interpreter that has the extra ``text``.
        folder: made here.
    """
    await output_of(python, "-c", _TINY, str(folder))
    return folder


#: Its context holds an agent's prompt, and an answer that a client leaves.
_TINY = """
import sys
from pathlib import Path
from tests.container.models.text import tiny
tiny.CONTEXT = 8192
tiny.make_chain(Path(sys.argv[1]), "Helo, wrd!")
"""


def _chat(engine: str) -> str:
    words = [sys.executable, "-m", "partway.container", "serve", "--model", "chat"]
    words += ["--set", f"upstream={engine}/v1", *_PLACE]
    return f"[endpoints.chat]\ncommand = {_toml(words)}"


def _text(python: str, model: Path) -> str:
    words = [python, "-m", "partway.container", "serve", "--model", "text"]
    words += ["--model-dir", str(model), *_PLACE]
    return f"[endpoints.text]\ncommand = {_toml(words)}"


_PLACE = ("--host", "127.0.0.1", "--port", "{port}")


def _toml(words: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


async def in_service(endpoint: str, data: Path) -> None:
    """Wait until an endpoint of the gateway with a data directory is in service."""
    words = ["wait", endpoint, "--data-dir", str(data), "--timeout", str(READY)]
    await output_of(sys.executable, "-m", "partway", *words)


async def output_of(*words: str) -> str:
    """Run a program that must succeed; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@asynccontextmanager
async def _proxy(python: str, engine: str, directory: Path) -> AsyncIterator[str]:
    """Run LiteLLM's proxy; yield its URL."""
    config = directory / "litellm.yaml"
    config.write_text(_PROXY.format(url=engine, key=PROXY_KEY), "utf-8")
    port = free_port()
    log = directory / "litellm.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(Path(python).with_name("litellm")),
            *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            stdout=output,
            stderr=output,
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": str(directory)},
        )
    try:
        async with asyncio.timeout(READY):
            while not await listens(port):
                assert process.returncode is None, log.read_text("utf-8")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
