"""A gateway that runs beside a test, in front of a container that follows the test's script.

::

    with RunningGateway() as gateway:
        gateway.container.replies_with(Fragmented("Hel", "lo"))
        gateway.faults.add(Cut(after=1), streams=1)
        talk_to(gateway.url, ca=gateway.ca_file)
        assert gateway.container.received == ["hi", "hi again"]

The gateway has a thread and an event loop of its own, so that the test may be synchronous, or run
on any loop. All names that a test may need are imported from here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import Attached, Endpoint
from partway.gateway.fleet.limits import MAX_INSTANCES
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.ports import Listening
from partway.gateway.settings.settings import Settings, changed_policy
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.workbench.intermediary.dialler import InterposingDialler
from partway.gateway.workbench.intermediary.faults import (
    CloseEarly,
    Cut,
    Delay,
    DropPongs,
    Empty,
    Fault,
    Met,
    Refuse,
    Rule,
    Rules,
    Split,
    Stall,
    Throttle,
)
from partway.gateway.workbench.testing.script import CloseWith, FailWith, Fragmented
from partway.gateway.workbench.testing.scripted_container import ReceivedStream, ScriptedContainer
from partway.protocol.signatures.verification import Credentials

__all__ = [
    "CloseEarly",
    "CloseWith",
    "Cut",
    "Delay",
    "DropPongs",
    "Empty",
    "FailWith",
    "Faults",
    "Fragmented",
    "GatewayDidNotRun",
    "ReceivedStream",
    "Refuse",
    "RunningGateway",
    "ScriptedContainer",
    "Split",
    "Stall",
    "Throttle",
    "log_shown",
]

#: Seconds for the start, which takes a tenth of one, and for the end on a busy machine.
START_TIMEOUT: Final = 30.0
STOP_TIMEOUT: Final = 30.0

#: Seconds for the last bytes of the streams that the test has left open.
_LAST_BYTES: Final = 1.0

#: A machine that is busy with other tests may accept later than in the platform's 250 ms.
_PATIENT: Final = StreamPolicy(connect_timeout=5.0)


@contextmanager
def log_shown() -> Iterator[None]:
    """Let the gateway's log have INFO lines inside the block, unless a level is already set.

    pytest shows the lines of a test that fails: how each stream ended, why each refusal was made.
    """
    gateway = logging.getLogger("partway")
    unset = gateway.level == logging.NOTSET
    if unset:
        gateway.setLevel(logging.INFO)
    try:
        yield
    finally:
        if unset:
            gateway.setLevel(logging.NOTSET)


class _EveryImage(Mapping[str, Attached]):
    """Lets the scripted container stand for every image, so that any model can be deployed."""

    def __init__(self, container: Address) -> None:
        self._source = Attached((container,) * MAX_INSTANCES)

    def __getitem__(self, image: str) -> Attached:
        return self._source

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class GatewayDidNotRun(Exception):
    """The gateway did not start, or failed while it ran; ``__cause__`` says why."""


class Faults:
    """The faults of one gateway's streams. May be used from any thread."""

    def __init__(self) -> None:
        #: The rules in force.
        self.rules = Rules()

    def add(
        self,
        *faults: Fault,
        streams: int | None = None,
        every: int | None = None,
        path: str | None = None,
        query: str | None = None,
    ) -> Met:
        """Add faults for streams that open from now on.

        A stream has the faults of one call at most.

        Args:
            faults: the faults; each of another kind.
            streams: how many streams have the faults, counted from the first; all if left out.
            every: which streams have the faults: 3 means the third, the sixth, and so on.
            path: only streams on this path of the container.
            query: only streams whose query has these ``key=value`` pairs.

        Returns:
            How often the faults were met: ``applied`` counts the streams that got them.

        Raises:
            TypeError: an argument is not a fault.
            ValueError: the faults do not go together, or a number is not allowed.
        """
        for fault in faults:
            if not isinstance(fault, Fault):
                raise TypeError(f"{fault!r} was given; it must be a fault, such as Cut(after=2)")
        if streams is not None and streams < 1:
            raise ValueError(f"streams: {streams} was given; it must be 1 or more")
        return self.rules.add(Rule(faults, first=streams, every=every, path=path, query=query))

    def clear(self) -> None:
        """Remove all faults, for streams that open from now on."""
        self.rules.replace(())


class RunningGateway:
    """A gateway that runs from the beginning of a ``with`` block to its end.

    Clients sign their requests with the key, or send the token; both are valid for this gateway
    alone.

    Args:
        policy: further settings of the gateway's streams, by their names in
            :class:`~partway.gateway.fleet.stream_policy.StreamPolicy`, such as
            ``RunningGateway(ping_interval=0.5)``.

    Attributes:
        container: the container: its script, and the messages that it received.
        faults: the faults of streams.
        endpoint_name: the name of the gateway's one endpoint.
        region: the region that signatures must name.
        access_key_id: the id of the one key.
        secret_access_key: the secret of the one key.
        token: a bearer token for WebSockets.

    Raises:
        TypeError: there is no setting of that name, or the setting cannot have this value.
    """

    endpoint_name: Final = "model"
    region: Final = "us-east-1"

    def __init__(self, **policy: Any) -> None:
        try:
            self._policy = changed_policy(_PATIENT, policy, "partway_gateway")
        except SettingsError as error:
            raise TypeError(str(error)) from None
        self.container = ScriptedContainer()
        self.faults = Faults()
        self.access_key_id = f"AKID{secrets.token_hex(8).upper()}"
        self.secret_access_key = secrets.token_urlsafe(30)
        self.token = secrets.token_urlsafe(24)
        self._started: Future[tuple[Listening, Path]] = Future()
        self._stopping: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="partway-gateway", daemon=True)

    # --- Addresses and credentials ----------------------------------------------------------------

    @property
    def url(self) -> str:
        """``https://…``, for HTTP/2 and HTTP/1.1; its certificate is signed by :attr:`ca_file`."""
        return f"https://127.0.0.1:{self._listening.tls_port}"

    @property
    def http_url(self) -> str:
        """The same gateway without TLS."""
        return f"http://127.0.0.1:{self._listening.port}"

    @property
    def ca_file(self) -> Path:
        """PEM file of the CA that clients have to trust for :attr:`url`."""
        return self._started.result(0)[1]

    @property
    def credentials(self) -> Credentials:
        """The key, for :func:`partway.gateway.client.connect`."""
        return Credentials(self.access_key_id, self.secret_access_key)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that lead AWS's SDKs here, and make them trust the CA.

        If ``AWS_SESSION_TOKEN`` is set, the caller must remove it: it belongs to another key.
        """
        ca = str(self.ca_file)
        return {
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2": self.url,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.url,
            "AWS_ENDPOINT_URL_SAGEMAKER": self.url,
            "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": self.url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CA_BUNDLE": ca,
            "SSL_CERT_FILE": ca,
            "NODE_EXTRA_CA_CERTS": ca,
        }

    def websocket_url(
        self, path: str = "", query: str = "", *, tls: bool = False, token: bool = True
    ) -> str:
        """Make the URL for a WebSocket client, such as a browser.

        Args:
            path: the model invocation path, without a slash in front; empty for the default path.
            query: the model query string, as ``key=value`` pairs.
            tls: whether to connect by ``wss://``, in place of ``ws://``.
            token: whether the URL contains the token, so that nothing else is needed.
        """
        base = (self.url if tls else self.http_url).replace("http", "ws", 1)
        members = {"path": path, "query": query, "access_token": self.token if token else ""}
        given = {name: value for name, value in members.items() if value}
        target = f"{base}/endpoints/{self.endpoint_name}/invocations-bidirectional-stream"
        return f"{target}?{urlencode(given, quote_via=quote, safe='')}" if given else target

    @property
    def _listening(self) -> Listening:
        return self._started.result(0)[0]

    # --- Start and end, on the test's thread ------------------------------------------------------

    def __enter__(self) -> Self:
        """Start the gateway and its container.

        Raises:
            GatewayDidNotRun: the gateway did not start.
        """
        self._thread.start()
        try:
            failure = self._started.exception(START_TIMEOUT)
        except TimeoutError:
            self._stop()
            raise GatewayDidNotRun(
                f"the gateway did not start within {START_TIMEOUT:g} s"
            ) from None
        except BaseException:  # Ctrl+C
            self._stop()
            raise
        if failure is not None:
            self._thread.join()
            raise GatewayDidNotRun(f"the gateway did not start: {failure}") from failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the open streams, the gateway and its container.

        Raises:
            GatewayDidNotRun: the gateway had failed, or does not come to its end.
        """
        self._stop()
        if self._thread.is_alive():
            raise GatewayDidNotRun(f"the gateway has not stopped within {STOP_TIMEOUT:g} s")
        if self._failure is not None:
            raise GatewayDidNotRun(f"the gateway failed: {self._failure}") from self._failure

    def _stop(self) -> None:
        if self._stopping is not None:
            loop, stop = self._stopping
            with suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(stop.set)
        self._thread.join(STOP_TIMEOUT)

    # --- The gateway's own thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # raised on the test's thread instead
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        stop = asyncio.Event()
        self._stopping = asyncio.get_running_loop(), stop
        async with AsyncExitStack() as up:
            directory = Path(up.enter_context(TemporaryDirectory(prefix="partway-")))
            up.push_async_callback(self.container.aclose)
            container = await self.container.start()
            dialler = await up.enter_async_context(InterposingDialler(self.faults.rules))
            files = LocalCa(directory / "ca").ensure(["localhost", "127.0.0.1"], datetime.now(UTC))
            settings = Settings(
                port=0,
                tls_port=0,
                auth="sigv4",
                principals=self._write_principals(directory / "principals.toml"),
                allow_origins=frozenset({"*"}),
                shutdown_grace=0.0,
                shutdown_spread=0.0,
                shutdown_hard=_LAST_BYTES,
                region=self.region,
                endpoints=(Endpoint.attached(self.endpoint_name, container, self._policy),),
                images=_EveryImage(container),
            )
            gateway = Gateway(settings, server_context(files), dialler=dialler)
            listening = await gateway.start()
            up.push_async_callback(gateway.drain)
            assert files.ca is not None, "the local CA's files name it"
            self._started.set_result((listening, files.ca))
            await stop.wait()

    def _write_principals(self, path: Path) -> Path:
        """Write the file of principals, which lets the test call every operation.

        Only the owner can read the file, or the gateway would warn.
        """
        path.touch(0o600)
        path.write_text(
            '[[principals]]\nname = "test"\n'
            'actions = ["sagemaker:*", "logs:*", "s3:*"]\n'
            f"tokens = [{json.dumps(self.token)}]\n"
            "[[principals.keys]]\n"
            f"access_key_id = {json.dumps(self.access_key_id)}\n"
            f"secret_access_key = {json.dumps(self.secret_access_key)}\n",
            "utf-8",
        )
        return path
