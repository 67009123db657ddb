"""A gateway that AWS's SDK can talk to, and the SDK in its own interpreter, driven from here.

::

    async with Sdk.start(python, ca) as sdk:
        client = await sdk.client(uri, KEY)
        stream = await client.open("echo")
        await stream.send(b"hi", data_type="UTF8")
        assert await stream.receive() == Part(b"hi", "UTF8", "COMPLETE")
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.request import urlopen

from partway.gateway.limits import METRICS_AGE

ROOT = Path(__file__).parents[2]
CLIENT = Path(__file__).with_name("aws_sdk_client.py")

REGION = "us-east-1"

#: What no step should ever need, in seconds; opening may take the first signature's imports.
PATIENCE = 10.0

#: What no start of a client should ever need: the largest libraries take 15 s of CPU to import.
IMPORT_PATIENCE = 150.0


class Key(NamedTuple):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


#: Who may do what at the gateways of these checks.
KEY = Key("AKIDPARTWAYINTEROP01", "interop/secret+of/nobody0123456789abcdef")
TEMPORARY = Key("ASIAPARTWAYINTEROP02", "temporary/secret+0123456789abcdefghijklm", "a/token+of==")
LIMITED = Key("AKIDPARTWAYINTEROP03", "limited/secret+0123456789abcdefghijklmnop")
DEPLOYING = Key("AKIDPARTWAYINTEROP04", "deploying/secret+0123456789abcdefghijk")

PRINCIPALS = f"""
[[principals]]
name = "deploying"
actions = ["sagemaker:*"]
[[principals.keys]]
access_key_id = "{DEPLOYING.access_key_id}"
secret_access_key = "{DEPLOYING.secret_access_key}"

[[principals]]
name = "interop"
[[principals.keys]]
access_key_id = "{KEY.access_key_id}"
secret_access_key = "{KEY.secret_access_key}"
[[principals.keys]]
access_key_id = "{TEMPORARY.access_key_id}"
secret_access_key = "{TEMPORARY.secret_access_key}"
session_token = "{TEMPORARY.session_token}"

[[principals]]
name = "limited"
resources = ["arn:aws:sagemaker:*:*:endpoint/nothing-here"]
[[principals.keys]]
access_key_id = "{LIMITED.access_key_id}"
secret_access_key = "{LIMITED.secret_access_key}"
"""


class Part(NamedTuple):
    """A part as the SDK's user sees it."""

    payload: bytes
    data_type: str | None = None
    completion: str | None = None
    padding: str | None = None


class SdkError(Exception):
    """An exception that the SDK raised; its members are ours too.

    Attributes:
        kind: its class's name.
        text: ``str()`` of it.
        cause: the class's name of its ``__cause__``, or None.
        members: those of the API's errors that it has; None where it has none.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['kind']}: {told['text']}")
        self.kind: str = told.pop("kind")
        self.text: str = told.pop("text")
        self.cause: str | None = told.pop("cause")
        self.members: dict[str, Any] = told


class Hung(AssertionError):
    """The SDK did not answer in time."""


# --- The SDK -------------------------------------------------------------------------------------


class Sdk:
    """The process that runs :mod:`tests.interop.aws_sdk_client`, or another program on the SDK.

    Attributes:
        version: of the SDK, or of what stands on it.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.version = ""

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        python: str,
        ca: Path,
        log: Path,
        *,
        program: Path = CLIENT,
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Self]:
        """Run it.

        Args:
            python: the interpreter.
            ca: what it trusts, PEM.
            log: takes its standard error.
            program: what it runs, which takes commands line by line.
            before: words of a command that runs the rest of its words.
            environment: further variables.
        """
        environment = {
            "PATH": os.environ["PATH"],
            "SSL_CERT_FILE": str(ca),
            **(environment or {}),
        }
        environment |= {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *before,
                python,
                str(program),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environment,
                limit=2**24,
            )
        sdk = cls(process)
        reading = asyncio.create_task(sdk._read())
        try:
            sdk.version = await sdk.call("version", patience=IMPORT_PATIENCE)
            yield sdk
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), PATIENCE)
            except TimeoutError:
                process.kill()
                await process.wait()
            await reading

    async def call(self, do: str, *, patience: float = PATIENCE, **arguments: Any) -> Any:
        """One command; returns its result.

        Raises:
            SdkError: the SDK raised an exception.
            Hung: it was not done in time; it goes on.
        """
        assert self._process.stdin is not None
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "do": do, **arguments}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        try:
            answer = await asyncio.wait_for(answered, patience)
        except TimeoutError:
            of = arguments.get("stream") or arguments.get("bot", "")
            raise Hung(f"{do} {of}: nothing in {patience:g} s") from None
        if "error" in answer:
            raise SdkError(answer["error"])
        return answer["result"]

    async def client(self, uri: str, key: Key, region: str = REGION) -> SdkClient:
        client = SdkClient(self, f"client-{next(self._numbers)}")
        await self.call(
            "client", client=client.name, endpoint_uri=uri, region=region, key=list(key)
        )
        return client

    def kill(self) -> None:
        """End the process at once, with its connections."""
        self._process.kill()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            answered = self._waiting.pop(answer["id"])
            if not answered.done():
                answered.set_result(answer)
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(AssertionError("the SDK's process ended; see its log"))


class SdkClient:
    def __init__(self, sdk: Sdk, name: str) -> None:
        self.sdk = sdk
        self.name = name

    async def begin(self, endpoint: str, **members: str) -> SdkStream:
        """Begin a stream, and do not wait for the response's head.

        Args:
            endpoint: its name.
            members: of the request, such as ``model_invocation_path``.
        """
        stream = SdkStream(self.sdk, f"stream-{next(self.sdk._numbers)}")
        asked = {"endpoint_name": endpoint, **members}
        await self.sdk.call("open", client=self.name, stream=stream.name, **asked)
        return stream

    async def open(self, endpoint: str, **members: str) -> SdkStream:
        """Begin a stream, and wait for the head.

        Raises:
            SdkError: it was refused.
        """
        stream = await self.begin(endpoint, **members)
        await stream.head()
        return stream

    async def close(self) -> None:
        await self.sdk.call("close_client", client=self.name)


class SdkStream:
    def __init__(self, sdk: Sdk, name: str) -> None:
        self._sdk = sdk
        self.name = name

    async def head(self, patience: float = PATIENCE) -> str:
        """The response's head; returns the variant that it names."""
        head = await self._sdk.call("head", stream=self.name, patience=patience)
        return head["variant"]

    async def send(
        self,
        payload: bytes,
        data_type: str | None = None,
        completion: str | None = None,
        **more: str,
    ) -> None:
        """Send a part; what is None is left out."""
        members = {"data_type": data_type, "completion_state": completion, **more}
        given = {name: value for name, value in members.items() if value is not None}
        encoded = base64.b64encode(payload).decode()
        await self._sdk.call("send", stream=self.name, payload=encoded, **given)

    async def receive(self, patience: float = PATIENCE) -> Part | None:
        """The next part, or None at the end.

        Raises:
            SdkError: the stream ended with one.
        """
        part = await self._sdk.call("receive", stream=self.name, patience=patience)
        return None if part is None else Part(base64.b64decode(part[0]), *part[1:])

    async def rest(self, patience: float = PATIENCE) -> list[Part]:
        """All further parts, up to a clean end."""
        parts = []
        while (part := await self.receive(patience)) is not None:
            parts.append(part)
        return parts

    async def error(self) -> SdkError:
        """What the next ``receive()`` raises."""
        try:
            part = await self.receive()
        except SdkError as error:
            return error
        raise AssertionError(f"no exception, but {part}")

    async def end_input(self, patience: float = PATIENCE) -> None:
        await self._sdk.call("end_input", stream=self.name, patience=patience)

    async def close_output(self) -> None:
        await self._sdk.call("close_output", stream=self.name)

    async def close(self, patience: float = PATIENCE) -> None:
        """``close()``, as at the end of ``async with``."""
        await self._sdk.call("close", stream=self.name, patience=patience)

    async def forget(self) -> None:
        """Drop the last reference to it."""
        await self._sdk.call("forget", stream=self.name)


# --- The gateway ---------------------------------------------------------------------------------


class ServedGateway:
    """``partway serve`` with TLS, and with signatures unless told otherwise, as a process.

    Attributes:
        http: its URL without TLS.
        https: its URL with.
        ca: the local CA's certificate.
        log: what it has written to standard error.
    """

    http: str
    https: str

    def __init__(self, directory: Path, log: Path, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._told = False
        self.ca = directory / "data" / "partway" / "tls" / "ca.pem"
        self.log = log

    @classmethod
    @asynccontextmanager
    async def start(
        cls, directory: Path, config: str, principals: str | None, *flags: str
    ) -> AsyncIterator[ServedGateway]:
        """Run it, with a local CA of its own; held to exit status 0.

        Args:
            directory: for its files.
            config: settings as TOML.
            principals: the file of those who may sign; None for a gateway that asks for no proof.
            flags: more for ``partway serve``.
        """
        (directory / "partway.toml").write_text(config, "utf-8")
        log = directory / "gateway.log"
        words = [
            "--config", str(directory / "partway.toml"), "--port", "0", "--tls-port", "0",
            "--region", REGION, *flags,
        ]  # fmt: skip
        if principals is not None:
            file = directory / "principals.toml"
            file.write_text(principals, "utf-8")
            file.chmod(0o600)
            words += ["--auth", "sigv4", "--principals", str(file)]
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "partway.gateway.cli.main", "serve", *words),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=os.environ | {"XDG_DATA_HOME": str(directory / "data")},
            )
        gateway = cls(directory, log, process)
        try:
            await gateway._ready()
            yield gateway
        finally:
            gateway.terminate()
            try:
                await gateway.ended()
            except TimeoutError:
                process.kill()
                await process.wait()
        assert process.returncode == 0, log.read_text("utf-8")

    def terminate(self) -> None:
        """SIGTERM, once: a second one hastens, and a late one finds nobody who handles it."""
        if not self._told and self._process.returncode is None:
            self._told = True
            self._process.terminate()

    async def ended(self) -> None:
        """Wait until it has, once it was told to."""
        await asyncio.wait_for(self._process.wait(), 30)

    async def _ready(self) -> None:
        output = self._process.stdout
        assert output is not None
        lines = [(await asyncio.wait_for(output.readline(), 30)).decode() for _ in range(2)]
        found = re.findall(r"https?://\S+", "".join(lines))
        assert len(found) == 2, self.log.read_text("utf-8")
        self.http, self.https = found

    async def causes(self) -> Mapping[str, int]:
        """How streams have ended so far: ``partway_stream_ends_total`` by cause."""
        await asyncio.sleep(METRICS_AGE)  # the page may be that old, and nothing tells of a new one
        text = await asyncio.to_thread(lambda: urlopen(f"{self.http}/metrics").read().decode())
        sample = r'^partway_stream_ends_total\{.*?cause="(\w+)".*?\} (\S+)$'
        found = re.findall(sample, text, re.MULTILINE)
        causes: dict[str, int] = {}
        for cause, count in found:
            causes[cause] = causes.get(cause, 0) + int(float(count))
        return causes
