"""The ways to ask a language model: through gateway and runtime, or the runtime alone."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import peers
from benchmarks.peers import Peer, StartError
from benchmarks.rounds import printed
from benchmarks.text_models import Made
from benchmarks.text_replies import Reply
from partway.container.models.text.settings import TextSettings

CONTAINER_PATH = "/invocations-bidirectional-stream"
GATEWAY_PATH = "/endpoints/echo/invocations-bidirectional-stream"

THROUGH_ALL = "gateway and runtime"
THROUGH_RUNTIME = "runtime alone"

#: Seconds to read the weights and capture the graphs.
LOAD_TIMEOUT = 300.0
#: Seconds for one load; the slowest takes a fortieth.
REPLY_TIMEOUT = 240.0
_WARM_UP = 0.25

#: Asks on this many streams for this many tokens each.
Load = Callable[[int, int], list[Reply]]


@dataclass(frozen=True, slots=True)
class Setup:
    """The measurement of one device.

    Attributes:
        name: of the device, for the tables.
        settings: of every engine of the run.
        tokens: of each reply.
    """

    name: str
    made: Made
    settings: TextSettings
    streams: Sequence[int]
    tokens: int

    @property
    def warm_up_tokens(self) -> int:
        """Tokens of replies that are not counted: caches and allocators warm up."""
        return max(1, int(self.tokens * _WARM_UP))


@contextmanager
def container(model: str, setup: Setup) -> Iterator[Peer]:
    """Start the runtime with a model, and wait until the model is loaded."""
    settings = setup.settings
    environment = [f"{key}={getattr(settings, name)}" for key, name in settings.variables().items()]
    command = [
        "env",
        *environment,
        sys.executable,
        "-m",
        "partway.container",
        "serve",
        "--model",
        model,
    ]
    command += ["--model-dir", str(setup.made.path), "--host", "127.0.0.1", "--port", "0"]
    with peers.started(command) as process:
        deadline = time.monotonic() + LOAD_TIMEOUT
        while time.monotonic() < deadline and process.running.poll() is None:
            found = re.search(r"listening on http://([\w.]+:\d+)", process.said())
            if found:
                yield Peer(found[1], process.running.pid)
                return
            time.sleep(0.1)
        raise StartError(f"the container did not load {model}: {process.said()[-2000:]}")


def client(peer: Peer, path: str) -> Load:
    """Make a load of streams, which runs as a process of its own."""

    def ask(streams: int, tokens: int) -> list[Reply]:
        command = [sys.executable, "-m", "benchmarks.text_client", f"ws://{peer.address}{path}"]
        command += ["--streams", str(streams), "--tokens", str(tokens)]
        command += ["--seconds", str(REPLY_TIMEOUT)]
        found = printed(path, command, 2 * REPLY_TIMEOUT)
        return [Reply.from_json(each) for each in found]

    return ask
