"""InterposingDialler: which intermediaries there are, and for how long."""

from __future__ import annotations

import asyncio
import json

import pytest

from partway.gateway.fleet.endpoint import Endpoint, Place
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.intermediary.dialler import InterposingDialler
from partway.gateway.workbench.intermediary.faults import Refuse, Rule, Rules
from partway.gateway.workbench.recording.recorder import Recorder
from partway.protocol.errors import ServiceUnavailable
from tests.frame_factory import TEXT, frame
from tests.gateway.network.test_dialling import no_descriptor_left
from tests.gateway.workbench.intermediary.conftest import Seen
from tests.wire.conftest import PATIENCE, PATIENT
from tests.wire.peers import RAW, RawClient, RawContainer, eventually, soon, upgrade_request

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def endpoint_of(container):
    """Endpoints of the one container, by their names."""

    def endpoint(name: str) -> Place:
        return Place(name, Address("127.0.0.1", container.port), PATIENT)

    return endpoint


async def dialled(dialler: InterposingDialler, endpoint: Place) -> tuple[asyncio.Transport, int]:
    """A stream's connection, and the port of the intermediary that it goes through."""
    upgraded = await soon(dialler(endpoint, "/x", "id"))
    return upgraded.transport, upgraded.transport.get_extra_info("peername")[1]


async def ended(port: int) -> None:
    """Whoever listened there does so no more."""
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(port)


# --- Endpoints that appear while the gateway runs ------------------------------------------------


async def test_an_endpoint_that_appears_later_is_recorded_and_spoiled(
    gateway_for, container, tmp_path
):
    recorder = Recorder(tmp_path / "kept")
    rules = Rules([Rule((Refuse(429, "on demand"),), endpoint="later", first=1)])
    async with (
        InterposingDialler(rules, recorder.observe) as dialler,
        RawContainer() as another,
    ):
        gateway = await gateway_for(dialler=dialler)
        await gateway.open(RAW)
        gateway.gateway.fleet.apply(
            Endpoint.attached("later", Address("127.0.0.1", another.port), PATIENT)
        )
        await gateway.gateway.fleet.settled(PATIENCE)
        target = "/endpoints/later/invocations-bidirectional-stream"
        refused = await gateway.request(upgrade_request(target))
        assert refused.json["OriginalMessage"] == "on demand"
        assert another.connections == []
        client = await gateway.connect()
        await client.upgrade(upgrade_request(target, RAW))
        model = await another.stream()
        model.send(frame(TEXT, b"hi"))
        assert (await client.frame()).payload == b"hi"
        client.abort()
        model.abort()
        await gateway.stop()
    await asyncio.to_thread(recorder.close)
    kept = [path.read_text().splitlines() for path in (tmp_path / "kept").iterdir()]
    heads = sorted(json.loads(lines[0])["endpoint"] for lines in kept)
    assert heads == ["later", "later", "model"]
    assert sum('"hi"' in line for lines in kept for line in lines) == 1


# --- How many, and how long ----------------------------------------------------------------------


async def test_nothing_listens_before_a_container_is_dialled(container, endpoint_of):
    seen = []
    async with InterposingDialler(Rules(), lambda name, _: seen.append(name)) as dialler:
        opened = [await dialled(dialler, endpoint_of(name)) for name in ("a", "b", "a")]
        (_, first), (_, other), (_, again) = opened
        assert first == again != other
        assert seen == ["a", "b", "a"]
        for transport, _ in opened:
            transport.abort()
    await ended(first)
    await ended(other)


async def test_two_first_streams_share_what_one_of_them_starts(container, endpoint_of):
    async with InterposingDialler(Rules()) as dialler:
        opened = await asyncio.gather(*(dialled(dialler, endpoint_of("a")) for _ in range(5)))
        assert len({port for _, port in opened}) == 1
        for transport, _ in opened:
            transport.abort()


async def test_an_endpoint_whose_container_has_moved_is_followed(container, endpoint_of):
    async with InterposingDialler(Rules()) as dialler, RawContainer() as moved:
        before, _ = await dialled(dialler, endpoint_of("a"))
        await container.stream()
        after, _ = await dialled(dialler, Place("a", Address("127.0.0.1", moved.port), PATIENT))
        await moved.stream()
        before.abort()
        after.abort()


async def test_of_those_that_nobody_uses_the_oldest_end(container, endpoint_of):
    seen = []

    def observe(endpoint, request):
        seen.append(Seen(endpoint, request))
        return seen[-1]

    async with InterposingDialler(Rules(), observe, max_idle=1) as dialler:
        used, in_use = await dialled(dialler, endpoint_of("used"))
        model = await container.stream()
        ports = []
        for name in ("b", "c", "d"):
            transport, port = await dialled(dialler, endpoint_of(name))
            ports.append(port)
            transport.abort()
            gone = await container.stream()
            gone.end()
            # A stream is over some turns of the loop after its observer has heard so.
            await eventually(lambda: sum(not each.idle for each in dialler._standing.values()) == 1)
        await ended(ports[0])
        await ended(ports[1])
        (await RawClient.connect(ports[2])).abort()
        model.send(frame(TEXT, b"still"))
        anew, port = await dialled(dialler, endpoint_of("b"))
        assert port not in ports[1:]
        anew.abort()
        again, port = await dialled(dialler, endpoint_of("used"))
        assert port == in_use
        again.abort()
        used.abort()


# --- A start that comes to nothing ---------------------------------------------------------------


@pytest.mark.parametrize("turns", range(8))
async def test_who_leaves_while_it_starts_leaves_nothing(container, endpoint_of, turns):
    async with InterposingDialler(Rules()) as dialler:
        leaving = asyncio.create_task(dialler(endpoint_of("a"), "/x", "id"))
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(leaving)
        transport, _ = await dialled(dialler, endpoint_of("a"))
        transport.abort()


@pytest.mark.clause("4-4", "4-6")
async def test_no_descriptor_left_to_listen_with(container, endpoint_of):
    """The container is well: 503, not 424."""
    async with InterposingDialler(Rules()) as dialler:
        with no_descriptor_left(), pytest.raises(ServiceUnavailable) as caught:
            await soon(dialler(endpoint_of("a"), "/x", "id"))
        assert caught.value.message == (
            "this gateway cannot listen on loopback, which its faults and recordings need: "
            "Too many open files"
        )
        transport, _ = await dialled(dialler, endpoint_of("a"))
        transport.abort()
