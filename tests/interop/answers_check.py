"""No answer is lost at the end of input, whatever the container and the client are (clause 1.5-12).

Run by ``make answers SDK_PYTHON=…``. Containers that answer a Close at once, and ours, stand behind
one gateway as it comes. Each client asks each of them at once for answers that begin late or early
and last long or short, and ends its input before, in or after them. Then the tests look at what
came: a test for each client and container, whose line ``-s`` shows.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from tests.interop.answering import KINDS, Question
from tests.interop.asking import (
    Case,
    Outcome,
    ask_all,
    ask_in_browser,
    aws_sdk,
    invoke,
    python_client,
)
from tests.interop.aws_sdk import KEY, Sdk, ServedGateway
from tests.interop.aws_sdk_check import anyio_backend, python
from tests.interop.browser_check import pages, running_chromium
from tests.processes import running

__all__ = ["anyio_backend", "pages", "python"]

#: The answers take a minute, all at once.
pytestmark = pytest.mark.timeout(240)

SERVING = ("partway.container", "serve", "--host", "127.0.0.1", "--port", "0")

#: Containers: how each is started, and the status that SIGTERM ends it with.
CONTAINERS = {
    **{kind: (("tests.interop.answering", kind), -signal.SIGTERM) for kind in KINDS},
    "hosted": ((*SERVING, "--app", "tests.interop.answering:app"), 0),
    "ours": ((*SERVING, "--model", "tests.interop.answering:Answers"), 0),
}

CLIENTS = ("aws-sdk", "websocket", "http2", "browser", "invoke")

#: A process for each question costs a quarter of a second: of all these are asked, of which each
#: delay, duration and place of the end has two or three.
ASKED_BY_COMMAND = slice(1, None, 5)

#: Seconds until an answer begins, seconds that it lasts, most seconds between its parts.
DELAYS = (0.0, 2.0, 20.0)
DURATIONS = (0.0, 12.0, 40.0)
GAP = 2.0

#: Seconds from an answer's last part to the stream's end: ``drain_timeout`` is 3, and a container
#: that says that it finishes first ends at once.
BOUND = 3.5
BOUND_OF_OURS = 0.5

#: What a busy machine may add to one stream, in seconds: 570 are opened within a few, in which the
#: shortest answers end. Half of a client's streams are held to the bound itself where no process
#: has to end first. What is wrong costs all of them more: ``drain_timeout``, 10 or 60 s.
LATENESS = 5.0


def questions(container: str) -> list[Case]:
    """Every delay, duration and place of the end, to one container."""
    cases = []
    for delay, duration in itertools.product(DELAYS, DURATIONS):
        question = Question(delay, duration, GAP)
        count = len(question.answer())
        cases += [Case(container, question, ends_after) for ends_after in (0, count // 2, count)]
    return cases


Outcomes = dict[tuple[str, str], list[Outcome]]


# --- Peers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def containers() -> Iterator[dict[str, str]]:
    """Their URLs."""
    with ExitStack() as started:
        yield {
            name: started.enter_context(running(*command, expected_status=status))
            for name, (command, status) in CONTAINERS.items()
        }


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, containers: dict[str, str], pages: str
) -> AsyncIterator[ServedGateway]:
    """With no setting but where it listens, what stands behind it, and whose page may ask."""
    config = "\n".join(f'[endpoints.{name}]\nurl = "{url}"' for name, url in containers.items())
    directory = tmp_path_factory.mktemp("gateway")
    flags = ("--allow-origin", pages)
    async with ServedGateway.start(directory, config, None, *flags) as gateway:
        yield gateway


@pytest.fixture(scope="module")
async def outcomes(
    tmp_path_factory: pytest.TempPathFactory, gateway: ServedGateway, pages: str, python: str
) -> Outcomes:
    """All clients ask everything, side by side."""
    directory = tmp_path_factory.mktemp("clients")
    cases = [case for container in CONTAINERS for case in questions(container)]
    few = [case for container in CONTAINERS for case in questions(container)[ASKED_BY_COMMAND]]
    log = directory / "sdk.log"
    with running_chromium(directory / "chromium") as devtools:
        async with Sdk.start(python, gateway.ca, log) as sdk:
            client = await sdk.client(gateway.https, KEY)
            async with asyncio.TaskGroup() as asking:
                told = [
                    asking.create_task(asked)
                    for asked in (
                        ask_all(aws_sdk(client), cases),
                        ask_all(python_client(gateway.http, "websocket"), cases),
                        ask_all(python_client(gateway.http, "http2"), cases),
                        asyncio.to_thread(
                            ask_in_browser, devtools, f"{pages}/", gateway.http, cases
                        ),
                        ask_all(invoke(gateway.http), few),
                    )
                ]
            await client.close()
    found: Outcomes = {}
    for name, task in zip(CLIENTS, told, strict=True):
        for outcome in task.result():
            found.setdefault((name, outcome.case.container), []).append(outcome)
    return found


# --- What came -----------------------------------------------------------------------------------


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.clause("1.5-12")
async def test_every_answer_is_whole(outcomes: Outcomes, client: str, container: str) -> None:
    came = outcomes[client, container]
    whole = [outcome for outcome in came if outcome.whole]
    ends = sorted(outcome.end for outcome in came)
    half = statistics.median(ends)
    print(
        f"\n{client} asked {container}: {len(came)} answers, {len(whole)} whole, "
        f"the end {half:.2f} s after the last part, {ends[-1]:.2f} s at most"
    )
    assert [outcome for outcome in came if not outcome.whole] == []
    bound = BOUND_OF_OURS if container == "ours" else BOUND
    if client != "invoke":  # its end is that of a process, which takes half a second where it must
        assert half <= bound
    assert ends[-1] <= bound + LATENESS


@pytest.mark.clause("1.5-12")
async def test_the_gateway_calls_each_end_clean(outcomes: Outcomes, gateway: ServedGateway) -> None:
    streams = Counter(client for (client, _), came in outcomes.items() for _ in came)
    assert await gateway.causes() == {"completed": streams.total()}
