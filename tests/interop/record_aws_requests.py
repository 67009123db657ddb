"""Records what boto3, the AWS CLI and the SageMaker Python SDK ask, as it goes over the wire.

::

    python -m tests.interop.record_aws_requests CLIENTS SAGEMAKER SAGEMAKER_CORE

with the interpreters that ``make interop-boto3`` and ``make interop-sagemaker`` take. It runs the
examples of the docs against ``partway serve``, with a proxy between that writes down each request
that differs from those before, into ``tests/transcripts/aws_requests.jsonl``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path

from aiohttp import ClientSession, web

from tests.interop.aws_sdk import ROOT, ServedGateway
from tests.interop.served_api import SHOWN, blocks, ended, surroundings

TRANSCRIPT = ROOT / "tests" / "transcripts" / "aws_requests.jsonl"

#: Headers of one connection or one moment.
LEFT_OUT = {"host", "connection", "content-length", "transfer-encoding"}


class Recorder:
    """A proxy that keeps what is asked through it.

    Args:
        url: of the gateway.
        session: asks it.
    """

    def __init__(self, url: str, session: ClientSession) -> None:
        self._url = url
        self._session = session
        self.requests: dict[tuple[str, ...], dict[str, object]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        """Write a request down, pass it on, and answer what the gateway does."""
        body = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in LEFT_OUT
        }
        # What comes behind says on which machine it was.
        agent = headers["User-Agent"] = headers.get("User-Agent", "").partition(" ")[0]
        key = agent, request.path, headers.get("X-Amz-Target", ""), *sorted(_names(body))
        self.requests.setdefault(
            key,
            {
                "method": request.method,
                "path": request.path_qs,
                "headers": headers,
                "body": body.decode("latin-1"),
            },
        )
        async with self._session.request(
            request.method, self._url + request.path_qs, headers=headers, data=body
        ) as answer:
            told = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in LEFT_OUT
            }
            return web.Response(status=answer.status, headers=told, body=await answer.read())


def _names(body: bytes) -> list[str]:
    """The names in a body of JSON: two requests that have the same are alike."""
    return re.findall(r'"(\w+)":', body.decode("latin-1"))


async def main(clients: str, sagemaker: str, core: str) -> None:
    """Run each client's example, and write down what was asked."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with (
            ServedGateway.start(directory, "", None) as gateway,
            ClientSession(auto_decompress=False) as session,
        ):
            recorder = Recorder(gateway.http, session)
            app = web.Application(client_max_size=2**24)
            app.router.add_route("*", "/{path:.*}", recorder.handle)
            runner = web.AppRunner(app)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                url = "http://{}:{}".format(*runner.addresses[0][:2])
                for words in programs(clients, sagemaker, core, url):
                    variables = surroundings(directory, url, words[0])
                    told = await ended(*words, environment=variables, directory=directory)
                    if told.status != 0:
                        raise SystemExit(f"{words[:2]}: {told.output}{told.errors}")
            finally:
                await runner.cleanup()
    lines = [json.dumps(each, sort_keys=True) for each in recorder.requests.values()]
    TRANSCRIPT.write_text("\n".join([*lines, ""]), "utf-8")
    print(f"{len(lines)} requests are in {TRANSCRIPT}")


def programs(clients: str, sagemaker: str, core: str, url: str) -> list[list[str]]:
    """The docs' examples, as commands; the first word of each is of the client's environment."""
    _, life, _ = blocks("how-to/aws-cli.md", "sh")
    second, _, third = (
        each.replace(SHOWN, url) for each in blocks("how-to/sagemaker-sdk.md", "python")
    )
    shell = (
        "import subprocess, sys; sys.exit(subprocess.run(['sh', '-ec', sys.argv[1]]).returncode)"
    )
    return [
        [clients, str(ROOT / "docs" / "examples" / "boto3_lifecycle.py"), url],
        [clients, "-c", shell, life],
        [sagemaker, "-c", second],
        [core, "-c", third],
    ]


if __name__ == "__main__":
    asyncio.run(main(*(str(Path(each).absolute()) for each in sys.argv[1:4])))
