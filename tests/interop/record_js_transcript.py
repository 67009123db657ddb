"""Records one whole conversation of AWS's JavaScript SDK with a gateway, in clear.

::

    python -m tests.interop.record_js_transcript tests/transcripts

The same words as in :mod:`tests.interop.record_transcript`, whose form of file this is too.
``tests/transcripts/test_js_transcript.py`` says what the file is good for.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from tests.frame_factory import CLOSE, close
from tests.interop.aws_sdk import REGION
from tests.interop.js_sdk import JsClient, JsStream, Recorder, installed
from tests.interop.record_transcript import (
    ANSWERED,
    KEY,
    LAST,
    SENT,
    Record,
    principals_of,
    readable,
)
from tests.wire.peers import RawContainer


async def send(stream: JsStream, parts: list[tuple[bytes, str | None, str | None, str | None]]):
    """Send parts; what is None is left out."""
    for payload, *members in parts:
        named = zip(("DataType", "CompletionState", "P"), members, strict=True)
        await stream.send(payload, **{name: value for name, value in named if value is not None})


async def converse(directory: Path) -> dict[str, Any]:
    """Hold the conversation; returns the transcript."""
    where = installed()
    principals = directory / "principals.toml"
    principals.write_text(principals_of(KEY._asdict()), "utf-8")
    principals.chmod(0o600)
    async with RawContainer() as container:
        endpoint = Endpoint.attached("model", Address("127.0.0.1", container.port), StreamPolicy())
        gateway = Gateway(
            Settings(
                port=0, auth="sigv4", principals=principals, region=REGION, endpoints=(endpoint,)
            )
        )
        port = (await gateway.start()).port
        async with (
            Recorder(port) as recorder,
            JsClient.start(where, recorder.uri, KEY, directory / "node.log") as client,
        ):
            stream = await client.open(
                "model", ModelInvocationPath="v1/listen", ModelQueryString="language=de%2DDE"
            )
            model = await container.stream()
            # The SDK says GOAWAY once it has the response's head: words both ways come after it.
            await send(stream, SENT[:1])
            got = await model.frames(1)
            model.send(ANSWERED[0])
            await stream.opened()
            received = [await stream.part()]
            await send(stream, SENT[1:])
            got += await model.frames(len(SENT) - 1)
            model.send(*ANSWERED[1:])
            received += [await stream.part() for _ in ANSWERED[1:]]
            await stream.end_input()
            got += await model.frames(1)
            assert got[-1].opcode == CLOSE
            model.send(*LAST, close(1000))
            received += [await stream.part() for _ in LAST]
            await stream.end()
            (chunks,) = recorder.conversations
        gateway.hasten()
        await gateway.drain()
    record = Record()
    for chunk in chunks:
        record.add("client" if chunk.from_client else "gateway", chunk.data)
    package = "@aws-sdk/client-bedrock-runtime"
    installed_as = json.loads((where / "node_modules" / package / "package.json").read_text())
    return {
        "about": "one conversation of AWS's SDK for JavaScript with a gateway, in clear; made by "
        "python -m tests.interop.record_js_transcript",
        "sdk": f"{package} {installed_as['version']}",
        "region": REGION,
        "key": KEY._asdict(),
        "container": {
            "target": model.target,
            "frames": [[each.opcode, each.fin, each.payload.hex()] for each in got],
        },
        "received": [
            [part["Bytes"].hex(), part["DataType"], part["CompletionState"]] for part in received
        ],
        "bytes": [
            {"from": side, "hex": textwrap.wrap(data.hex(), 96)} for side, data in record.entries
        ],
    }


def main() -> None:
    """Record, and write the file."""
    (into,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        transcript = asyncio.run(converse(Path(directory)))
    path = Path(into) / f"aws-sdk-js-{transcript['sdk'].split()[-1]}-signed.json"
    path.write_text(readable(transcript) + "\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
