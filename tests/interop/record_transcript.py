"""Records one whole conversation of AWS's SDK with a gateway: every byte, and every frame.

::

    python -m tests.interop.record_transcript /path/to/python tests/transcripts

The interpreter is one that has the SDK (docs/how-to/aws-sdk-python.md). A relay in front of the
gateway takes TLS off and writes down what passes; the credentials are made up for the occasion.
``tests/transcripts/test_transcripts.py`` says what the file is good for.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.tls.local_ca import LocalCa, default_names
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, TEXT, close, frame
from tests.interop.aws_sdk import REGION, Key, Sdk
from tests.wire.peers import RawContainer

KEY = Key(
    "ASIATRANSCRIPTEXAMPLE",
    "a/secret+of/no/one/0123456789abcdefghijk",
    "a/session+token/of/no/one==",
)

#: What the SDK's user sends: payload, DataType, CompletionState, P.
SENT: list[tuple[bytes, str | None, str | None, str | None]] = [
    ("Grüße, ".encode(), "UTF8", "PARTIAL", None),
    (b"\xf0\x9f", "UTF8", "PARTIAL", None),  # a code point in two parts
    (b"\x8c\x8d", "UTF8", "COMPLETE", None),
    (b"", "UTF8", "COMPLETE", None),
    (b"\x00\xff" * 8, "BINARY", "PARTIAL", None),
    (b"", None, "PARTIAL", None),
    (bytes(range(256)), None, "COMPLETE", None),
    (b"no members at all", None, None, None),
    (b"padded", "UTF8", "COMPLETE", "abcdefghijklmnopqrstuvwxyz0123456789"),
]

#: What the container answers before the end of the input, and what after it.
ANSWERED = [frame(TEXT, b"Wie ", fin=False), frame(CONTINUATION, b"geht's?"), frame(BINARY, b"\0")]
LAST = [frame(TEXT, b"the tail")]


class Record:
    """What passed, in order; bytes of one side that follow each other are one entry."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, bytearray]] = []

    def add(self, side: str, data: bytes) -> None:
        if not self.entries or self.entries[-1][0] != side:
            self.entries.append((side, bytearray()))
        self.entries[-1][1].extend(data)


@asynccontextmanager
async def recording_relay(to_port: int, tls: ssl.SSLContext, record: Record) -> AsyncIterator[int]:
    """Takes TLS connections, passes their bytes on in clear; gives its port."""

    async def pass_on(
        side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            record.add(side, data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection("127.0.0.1", to_port)
        async with asyncio.TaskGroup() as both:
            both.create_task(pass_on("client", reader, onward[1]))
            both.create_task(pass_on("gateway", onward[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def converse(python: str, directory: Path) -> dict[str, Any]:
    """Hold the conversation; returns the transcript."""
    files = LocalCa(directory / "ca").ensure(default_names("127.0.0.1"), datetime.now(UTC))
    assert files.ca is not None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)
    tls.set_alpn_protocols(["h2"])
    principals = directory / "principals.toml"
    principals.write_text(principals_of(KEY._asdict()), "utf-8")
    principals.chmod(0o600)
    record = Record()
    async with RawContainer() as container:
        endpoint = Endpoint.attached("model", Address("127.0.0.1", container.port), StreamPolicy())
        gateway = Gateway(
            Settings(
                port=0, auth="sigv4", principals=principals, region=REGION, endpoints=(endpoint,)
            )
        )
        port = (await gateway.start()).port
        log = directory / "sdk.log"
        async with (
            recording_relay(port, tls, record) as relay,
            Sdk.start(python, files.ca, log) as sdk,
        ):
            client = await sdk.client(f"https://localhost:{relay}", KEY)
            stream = await client.begin(
                "model", model_invocation_path="v1/listen", model_query_string="language=de%2DDE"
            )
            model = await container.stream()
            await stream.head()
            for payload, data_type, completion, padding in SENT:
                more = {} if padding is None else {"p": padding}
                await stream.send(payload, data_type, completion, **more)
            frames = await model.frames(len(SENT))
            model.send(*ANSWERED)
            received = [await stream.receive() for _ in ANSWERED]
            await stream.end_input()
            frames += await model.frames(1)
            assert frames[-1].opcode == CLOSE
            model.send(*LAST, close(1000))
            received += await stream.rest()
            await stream.close()
            version = sdk.version
            target = model.target
        gateway.hasten()
        await gateway.drain()
    return {
        "about": "one conversation of AWS's SDK for Python with a gateway, TLS taken off; made by "
        "python -m tests.interop.record_transcript",
        "sdk": f"aws-sdk-sagemaker-runtime-http2 {version}",
        "region": REGION,
        "key": KEY._asdict(),
        "container": {
            "target": target,
            "frames": [[each.opcode, each.fin, each.payload.hex()] for each in frames],
        },
        "received": [
            [part.payload.hex(), part.data_type, part.completion] for part in received if part
        ],
        "bytes": [
            {"from": side, "hex": textwrap.wrap(data.hex(), 96)} for side, data in record.entries
        ],
    }


def principals_of(key: dict[str, str]) -> str:
    """The principals file of one key."""
    members = "\n".join(f'{name} = "{value}"' for name, value in key.items() if value)
    return f'[[principals]]\nname = "transcript"\n[[principals.keys]]\n{members}\n'


def readable(value: Any, indent: str = "") -> str:
    """As JSON, a short list on one line."""
    within = indent + " "
    match value:
        case dict():
            inner = [f"{within}{json.dumps(k)}: {readable(v, within)}" for k, v in value.items()]
            return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
        case list() if len(value) > 3 or any(isinstance(each, dict | list) for each in value):
            inner = [within + readable(each, within) for each in value]
            return "[\n" + ",\n".join(inner) + f"\n{indent}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Record, and write the file."""
    python, into = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        transcript = asyncio.run(converse(str(Path(python).absolute()), Path(directory)))
    version = transcript["sdk"].split()[-1].rpartition(".")[0]
    path = Path(into) / f"aws-sdk-python-{version}-signed.json"
    path.write_text(readable(transcript) + "\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
