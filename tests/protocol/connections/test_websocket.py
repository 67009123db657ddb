"""FrameConnection on real loopback sockets, under asyncio and uvloop.

The peer is mostly a plain socket: it reads only when a test makes it, and what it reads is told
apart by the frame factory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest
from aiohttp import web

from partway.protocol.connections.websocket import FrameConnection, Side
from partway.protocol.limits import FRAMES_PER_TURN, READ_BYTES_PER_TURN
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frames import Frame, Opcode
from tests import frame_factory as raw
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT

pytestmark = pytest.mark.usefixtures("no_leaks")

MIB = 1024 * 1024
PATIENCE = 20.0

SIDES = pytest.mark.parametrize("side", list(Side), ids=["client", "server"])


class Owner:
    """Notes everything that it is told, in order; ``on_frame`` may act on frames as they come."""

    def __init__(self):
        self.told = []
        self.on_frame = lambda frame: None
        self.on_close = lambda close: None
        self.on_failure = lambda error: None
        self._news = asyncio.Event()

    def _note(self, *what):
        assert ("lost",) not in [told[:1] for told in self.told], "told something after the end"
        self.told.append(what)
        self._news.set()

    def frame_received(self, frame):
        self._note("frame", *frame)
        self.on_frame(frame)

    def pong_received(self, payload):
        self._note("pong", payload)

    def close_received(self, close):
        self._note("close", close)
        self.on_close(close)

    def peer_failed(self, error):
        self._note("failed", error.code)
        self.on_failure(error)

    def connection_lost(self, error):
        self._note("lost", type(error))

    def writing_paused(self):
        self._note("paused")

    def writing_resumed(self):
        self._note("resumed")

    def heard(self, kind):
        return [told[1:] for told in self.told if told[0] == kind]

    async def until(self, kind, count=1):
        async with asyncio.timeout(PATIENCE):
            while len(self.heard(kind)) < count:
                self._news.clear()
                await self._news.wait()


class Timer:
    def __init__(self, delay, callback):
        self.delay = delay
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Timers:
    """A ``call_later`` whose time is the test's."""

    def __init__(self):
        self.set = []

    def __call__(self, delay, callback, *args):
        self.set.append(Timer(delay, functools.partial(callback, *args)))
        return self.set[-1]


class Peer:
    """The other end: a socket that reads when it is told to."""

    def __init__(self, sock, *, masks):
        self.sock = sock
        self.mask = KEY if masks else None
        self._received = b""

    def frame(self, opcode, payload=b"", **fields):
        return raw.frame(opcode, payload, mask=self.mask, **fields)

    async def send(self, *pieces):
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_sendall(self.sock, b"".join(pieces))

    async def receive(self):
        """The next frame, or None at EOF; what comes must be masked as its side demands."""
        async with asyncio.timeout(PATIENCE):
            while (found := raw.read_frame(self._received)) is None:
                data = await asyncio.get_running_loop().sock_recv(self.sock, 256 * 1024)
                if not data:
                    assert self._received == b""
                    return None
                self._received += data
        frame, self._received = found
        assert frame.masked is (self.mask is None)
        return frame

    async def receive_plain(self):
        """The next frame without what differs from run to run."""
        frame = await self.receive()
        return frame and (frame.opcode, frame.payload, frame.fin)

    async def drain(self):
        """Everything until EOF, as frames."""
        frames = []
        while (frame := await self.receive()) is not None:
            frames.append(frame)
        return frames

    def reset(self):
        """Leave with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Made(NamedTuple):
    connection: FrameConnection
    owner: Owner
    peer: Peer
    timers: Timers


def socket_pair(buffer=None):
    """Two connected TCP sockets on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.socket()
        theirs = None
        try:
            if buffer is not None:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            ours.connect(listener.getsockname())
            theirs, _ = listener.accept()
        except BaseException:
            ours.close()
            raise
    for sock in (ours, theirs):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


@contextlib.asynccontextmanager
async def made(side, **options):
    """A connection whose transport is a real socket, its owner, its peer, and its timers."""
    owner, timers = Owner(), Timers()
    connection = FrameConnection(owner, side, call_later=timers, **options)
    ours, theirs = socket_pair()
    with theirs:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        try:
            yield Made(connection, owner, Peer(theirs, masks=side is Side.SERVER), timers)
        finally:
            connection.abort()
            await owner.until("lost")


async def turns(count=5):
    """Let the loop go round: what was going to happen at once has happened."""
    for _ in range(count):
        await asyncio.sleep(0.002)


async def eventually(condition: Callable[[], bool]):
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (any condition, not an event)
            await asyncio.sleep(0.002)


async def settled(connection):
    """Wait until the sockets' buffers have taken what they take: a fifth of a second unchanged."""
    same, before = 0, -1
    async with asyncio.timeout(PATIENCE):
        while same < 40:
            await asyncio.sleep(0.005)
            same = same + 1 if connection.unsent_bytes == before else 0
            before = connection.unsent_bytes


async def fill(connection, owner):
    """Send to a peer that does not read, until writing is paused; returns the frames sent."""
    payload = bytes(64 * 1024)
    sent = 0
    while not owner.heard("paused"):
        connection.send(Frame(Opcode.BINARY, payload))
        sent += 1
        assert sent < 10_000
        await asyncio.sleep(0)
    return sent


# --- Frames --------------------------------------------------------------------------------------


@SIDES
async def test_frames_go_both_ways(side):
    frames = [
        Frame(Opcode.TEXT, b"a", False),
        Frame(Opcode.CONTINUATION, b"", False),
        Frame(Opcode.CONTINUATION, b"c", True),
        Frame(Opcode.BINARY, bytes(100_000), True),
    ]
    async with made(side) as (connection, owner, peer, _):
        for frame in frames:
            connection.send(frame)
            assert await peer.receive_plain() == tuple(frame)
            await peer.send(peer.frame(frame.opcode, frame.payload, fin=frame.fin))
        await owner.until("frame", 4)
        assert owner.heard("frame") == [tuple(frame) for frame in frames]
        assert connection.unsent_bytes == connection.buffered_bytes == 0
        assert not connection.lost


@SIDES
async def test_a_frame_byte_by_byte(side):
    async with made(side) as (_, owner, peer, _):
        for byte in peer.frame(TEXT, b"hello"):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0.001)
        await owner.until("frame")
        assert owner.told == [("frame", TEXT, b"hello", True)]


@pytest.mark.clause("1.4-3")
@SIDES
async def test_pings_are_answered_in_order_with_their_payload(side):
    async with made(side) as (_, owner, peer, _):
        payloads = [b"", b"1", b"2", b"2", b"x" * 125]
        await peer.send(
            peer.frame(TEXT, b"a", fin=False),
            *(peer.frame(PING, payload) for payload in payloads),
            peer.frame(CONTINUATION, b"b"),
        )
        for payload in payloads:
            assert await peer.receive_plain() == (PONG, payload, True)
        await owner.until("frame", 2)
        assert owner.told == [("frame", TEXT, b"a", False), ("frame", CONTINUATION, b"b", True)]


@SIDES
async def test_pongs_are_told_and_pings_sent(side):
    async with made(side) as (connection, owner, peer, _):
        connection.ping(b"12345678")
        assert await peer.receive_plain() == (PING, b"12345678", True)
        await peer.send(peer.frame(PONG, b"12345678"), peer.frame(PONG, b""))
        await owner.until("pong", 2)
        assert owner.told == [("pong", b"12345678"), ("pong", b"")]


async def test_text_is_checked_where_asked():
    async with made(Side.SERVER, check_text=True) as (_, owner, peer, _):
        await peer.send(peer.frame(TEXT, b"\xff"))
        await owner.until("failed")
        assert (await peer.receive()).close_code == 1007
        assert owner.told == [("failed", 1007)]


async def test_text_is_not_checked_by_default():
    async with made(Side.CLIENT) as (_, owner, peer, _):
        await peer.send(peer.frame(TEXT, b"\xff"))
        await owner.until("frame")
        assert owner.told == [("frame", TEXT, b"\xff", True)]


async def test_one_read_of_many_frames_lets_others_have_the_loop():
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        count = 5 * FRAMES_PER_TURN
        seen = []

        def look():
            seen.append(len(owner.told))
            if len(owner.told) < count:
                asyncio.get_running_loop().call_soon(look)

        asyncio.get_running_loop().call_soon(look)
        connection.data_received(raw.frame(BINARY, b"x") * count)
        assert len(owner.told) == FRAMES_PER_TURN
        await owner.until("frame", count)
        await turns()
        assert max(after - before for before, after in itertools.pairwise(seen)) <= FRAMES_PER_TURN
        # Reading goes on behind them.
        await peer.send(peer.frame(TEXT, b"last"))
        await owner.until("frame", count + 1)


class Flooded(asyncio.Transport):
    """A transport whose peer sends at full speed; it reads as libuv does, many times in a row."""

    READS = 32

    def __init__(self, connection, piece):
        super().__init__()
        self._connection = connection
        self._piece = piece
        self._reads = True

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def write(self, data):
        pass

    def can_write_eof(self):
        return False

    def pause_reading(self):
        self._reads = False

    def resume_reading(self):
        self._reads = True

    def abort(self):
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def read(self):
        """Read as often as libuv does in one turn of the loop; returns how many bytes that was."""
        taken = 0
        for _ in range(self.READS):
            if not self._reads:
                break
            self._connection.data_received(self._piece)
            taken += len(self._piece)
        return taken


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (lambda connection: None, raw.frame(BINARY, bytes(65_536))),
        (lambda connection: None, raw.frame(BINARY, b"", announced=16 * MIB) + bytes(65_536)),
        (lambda connection: connection.close(Close(1000)), raw.frame(BINARY, bytes(65_536))),
        (lambda connection: connection.finish(Close(1001)), raw.frame(BINARY, bytes(65_536))),
        (lambda connection: connection.finish(Close(1001)), raw.frame(TEXT, rsv=4) + bytes(65_536)),
    ],
    ids=["open", "one long frame", "closing", "finishing", "failed"],
)
async def test_a_flood_is_read_in_turns_whatever_state_the_connection_is_in(begin, piece):
    owner = Owner()
    connection = FrameConnection(owner, Side.CLIENT, call_later=Timers())
    transport = Flooded(connection, piece)
    connection.connection_made(transport)
    begin(connection)
    reads = []
    for _ in range(8):
        reads.append(transport.read())
        await asyncio.sleep(0)
    connection.abort()
    await owner.until("lost")
    assert max(reads) < READ_BYTES_PER_TURN + len(piece)
    assert sum(map(bool, reads)) > 1  # the connection is read again after its turn


# --- Not reading ---------------------------------------------------------------------------------


@SIDES
async def test_paused_means_that_nothing_is_delivered(side):
    async with made(side) as (connection, owner, peer, _):

        def pause_at_third(frame):
            if frame.payload == b"2":
                connection.pause_reading()

        owner.on_frame = pause_at_third
        frames = [peer.frame(BINARY, str(number).encode()) for number in range(10)]
        await peer.send(*frames[:8], peer.frame(PING, b"unseen"), peer.frame(PONG, b"unseen"))
        await owner.until("frame", 3)
        assert not connection.reading
        await peer.send(*frames[8:])
        await turns()
        assert [frame[1] for frame in owner.heard("frame")] == [b"0", b"1", b"2"]
        assert len(owner.told) == 3
        assert connection.buffered_bytes > 0
        with pytest.raises(BlockingIOError):
            peer.sock.recv(1)  # not even a Pong
        connection.resume_reading()
        assert connection.reading
        await owner.until("frame", 10)
        assert [frame[1] for frame in owner.heard("frame")] == [b"%d" % n for n in range(10)]
        assert owner.told[8] == ("pong", b"unseen")
        assert await peer.receive_plain() == (PONG, b"unseen", True)
        assert connection.buffered_bytes == 0


@SIDES
async def test_paused_means_that_the_socket_is_not_read(side):
    """What a peer sends to a connection that does not read stays with the peer."""
    async with made(side) as (connection, owner, peer, _):
        connection.pause_reading()
        await turns()
        frame = peer.frame(BINARY, bytes(60_000))
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += peer.sock.send(frame[sent % len(frame) :])
                assert sent < 256 * MIB
                await asyncio.sleep(0)
        await turns()
        with contextlib.suppress(BlockingIOError):
            sent += peer.sock.send(frame[sent % len(frame) :])
        assert owner.told == []
        assert connection.buffered_bytes <= 256 * 1024  # one read may have been under way
        connection.resume_reading()
        await peer.send(frame[sent % len(frame) :])
        await owner.until("frame", sent // len(frame) + 1)


async def test_pausing_and_resuming_inside_a_callback():
    """No recursion, and the order holds, however often."""
    async with made(Side.CLIENT) as (connection, owner, peer, _):

        def pause_and_resume(frame):
            connection.pause_reading()
            connection.resume_reading()

        owner.on_frame = pause_and_resume
        count = 3000
        await peer.send(*(peer.frame(BINARY, str(number).encode()) for number in range(count)))
        await owner.until("frame", count)
        assert [int(frame[1]) for frame in owner.heard("frame")] == list(range(count))


async def test_one_frame_for_each_resume():
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        owner.on_frame = lambda frame: connection.pause_reading()
        count = 2 * FRAMES_PER_TURN + 3
        await peer.send(*(peer.frame(BINARY, str(number).encode()) for number in range(count)))
        for number in range(1, count + 1):
            await owner.until("frame", number)
            if number % 50 == 0:
                await asyncio.sleep(0)
            assert len(owner.told) == number
            connection.resume_reading()
        assert [int(frame[1]) for frame in owner.heard("frame")] == list(range(count))


async def test_paused_before_its_turn_comes():
    """Reading paused while further frames wait for the next turn of the loop."""
    async with made(Side.CLIENT) as (connection, owner, _, _):
        connection.data_received(raw.frame(BINARY, b"x") * (FRAMES_PER_TURN + 5))
        assert len(owner.told) == FRAMES_PER_TURN
        connection.pause_reading()
        await turns()
        assert len(owner.told) == FRAMES_PER_TURN
        connection.resume_reading()
        await owner.until("frame", FRAMES_PER_TURN + 5)


async def test_pausing_twice_is_pausing_once():
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        connection.pause_reading()
        connection.pause_reading()
        await peer.send(peer.frame(TEXT, b"x"))
        await turns()
        assert owner.told == []
        connection.resume_reading()
        connection.resume_reading()
        await owner.until("frame")


# --- Not being read ------------------------------------------------------------------------------


@pytest.mark.clause("1.4-2")
@SIDES
async def test_over_the_high_water_mark_the_owner_is_told(side):
    async with made(side, high_water=100_000, low_water=10_000) as (connection, owner, peer, _):
        sent = await fill(connection, owner)
        assert connection.unsent_bytes > 100_000
        assert connection.unsent_bytes == connection.buffered_bytes
        position = connection.ping(b"12345678")
        assert not connection.flushed(position)
        assert connection.taken_bytes < position
        for _ in range(sent):
            assert (await peer.receive()).opcode == BINARY
        assert await peer.receive_plain() == (PING, b"12345678", True)
        await owner.until("resumed")
        await eventually(lambda: connection.flushed(position))
        assert connection.unsent_bytes == 0
        assert connection.taken_bytes == position
        assert owner.told == [("paused",), ("resumed",)]


async def test_a_ping_to_a_peer_that_reads_is_flushed():
    async with made(Side.CLIENT) as (connection, _, peer, _):
        position = connection.ping(b"12345678")
        assert position == 14  # two bytes, a key, the payload
        await peer.receive()
        await eventually(lambda: connection.flushed(position))
        assert not connection.flushed(position + 1)


@pytest.mark.clause("1.4-3")
@SIDES
async def test_pongs_owed_to_a_peer_that_does_not_read_collapse_to_the_latest(side):
    async with made(side) as (connection, owner, peer, _):
        await peer.send(peer.frame(PING, b"before"))
        sent = await fill(connection, owner)
        unsent = connection.unsent_bytes
        await peer.send(*(peer.frame(PING, str(number).encode()) for number in range(5)))
        await peer.send(peer.frame(TEXT, b"behind them"))
        await owner.until("frame")
        assert connection.unsent_bytes <= unsent  # nothing is stored for them
        frames = [await peer.receive() for _ in range(sent + 2)]
        pongs = [frame.payload for frame in frames if frame.opcode == PONG]
        assert pongs == [b"before", b"4"]
        assert frames[-1].opcode == PONG
        await owner.until("resumed")
        # Afterwards each is answered again.
        await peer.send(peer.frame(PING, b"a"), peer.frame(PING, b"b"))
        assert [(await peer.receive()).payload for _ in range(2)] == [b"a", b"b"]


class AlwaysFull(asyncio.Transport):
    """A transport on which every write goes over the high-water mark again."""

    def __init__(self, connection):
        super().__init__()
        self.connection = connection
        self.written = []

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        pass

    def write(self, data):
        self.written.append(data)
        self.connection.pause_writing()


async def test_small_frames_of_one_read_leave_as_one_piece():
    """uvloop keeps each piece that the socket does not take as an object of its own."""
    source, target = Owner(), FrameConnection(Owner(), Side.SERVER)
    kept = Keeping()
    target.connection_made(kept)
    source.on_frame = lambda seen: target.send(Frame(Opcode.BINARY, seen.payload))
    connection = FrameConnection(source, Side.CLIENT)
    connection.connection_made(Keeping())
    large = bytes(64 * 1024)
    connection.data_received(
        raw.frame(BINARY, b"x") * 3 + raw.frame(BINARY, large) + raw.frame(BINARY, b"y") * 2
    )
    assert b"".join(kept.pieces) == (
        raw.frame(BINARY, b"x") * 3 + raw.frame(BINARY, large) + raw.frame(BINARY, b"y") * 2
    )
    assert [len(piece) > 100 for piece in kept.pieces] == [False, True, False]


class Keeping(AlwaysFull):
    def __init__(self):
        super().__init__(None)
        self.pieces = []

    def write(self, data):
        self.pieces.append(data)

    def writelines(self, pieces):
        self.pieces += pieces


async def test_frames_with_more_to_follow_leave_in_one_write():
    connection = FrameConnection(Owner(), Side.SERVER)
    kept = Keeping()
    connection.connection_made(kept)
    for payload in (b"a", b"b"):
        connection.send(Frame(Opcode.BINARY, payload), more=True)
    assert kept.pieces == []
    assert connection.unsent_bytes == 6
    connection.send(Frame(Opcode.BINARY, b"c"))
    assert kept.pieces == [b"".join(raw.frame(BINARY, each) for each in (b"a", b"b", b"c"))]
    assert connection.taken_bytes == 9
    await turns()
    assert len(kept.pieces) == 1


async def test_what_was_to_follow_and_did_not_is_not_waited_for():
    connection = FrameConnection(Owner(), Side.SERVER)
    kept = Keeping()
    connection.connection_made(kept)
    connection.send(Frame(Opcode.BINARY, b"a"), more=True)
    await turns()
    assert kept.pieces == [raw.frame(BINARY, b"a")]
    connection.send(Frame(Opcode.BINARY, b"b"), more=True)
    connection.data_received(raw.frame(PING, b"1", mask=KEY))
    connection.close()
    assert b"".join(kept.pieces[1:]) == (
        raw.frame(BINARY, b"b") + raw.frame(PONG, b"1") + raw.close(1000)
    ), "nothing overtakes what waits"


@pytest.mark.parametrize(("size", "most"), [(1, 16), (16 * 1024, 16), (16 * 1024 + 1, 1)])
async def test_more_does_not_go_on_for_ever(size, most):
    connection = FrameConnection(Owner(), Side.SERVER)
    kept = Keeping()
    connection.connection_made(kept)
    for count in range(1, 40):
        connection.send(Frame(Opcode.BINARY, bytes(size)), more=True)
        assert bool(kept.pieces) is (count >= most)


async def test_a_pong_that_fills_the_buffer_again_resumes_nothing():
    """A real transport does this when the socket takes a little and no more."""
    owner = Owner()
    connection = FrameConnection(owner, Side.SERVER)
    transport = AlwaysFull(connection)
    connection.connection_made(transport)
    connection.pause_writing()
    connection.data_received(raw.frame(PING, b"1", mask=KEY))
    assert transport.written == []
    connection.resume_writing()
    assert transport.written == [raw.frame(PONG, b"1")]
    assert "resumed" not in [told[0] for told in owner.told]
    connection.resume_writing()
    assert owner.told[-1] == ("resumed",)
    assert len(transport.written) == 1


# --- Closing -------------------------------------------------------------------------------------


@pytest.mark.clause("1.5-1", "1.5-2")
@SIDES
@pytest.mark.parametrize(
    ("payload", "close"),
    [
        (b"", Close(None, "")),
        (b"\x03\xe8", Close(1000)),
        (b"\x03\xe9bye", Close(1001, "bye")),
        (b"\x0f\xa0x", Close(4000, "x")),
    ],
)
async def test_the_peer_closes(side, payload, close):
    async with made(side) as (connection, owner, peer, timers):
        owner.on_close = lambda _: connection.finish()
        await peer.send(peer.frame(CLOSE, payload))
        answer = await peer.receive()
        assert (answer.opcode, answer.payload) == (CLOSE, payload)
        await owner.until("close")
        assert connection.closed_by_peer
        if side is Side.SERVER:  # it ends TCP first
            assert await peer.receive() is None
        else:  # it waits for the server to do so
            await turns()
            with pytest.raises(BlockingIOError):
                peer.sock.recv(1)
            assert not connection.lost
            peer.sock.close()
        await owner.until("lost")
        assert owner.told == [("close", close), ("lost", type(None))]
        assert connection.lost
        assert [timer.cancelled for timer in timers.set] == [True]


@SIDES
async def test_we_close(side):
    """Frames still arrive until the peer's Close; then the end."""
    async with made(side) as (connection, owner, peer, _):
        connection.close(Close(1000, "enough"))
        connection.close(Close(1011))  # said once
        connection.send(Frame(Opcode.TEXT, b"dropped"))
        connection.ping(b"dropped")
        close = await peer.receive()
        assert (close.close_code, close.close_reason) == (1000, "enough")
        await peer.send(peer.frame(TEXT, b"tail", fin=False), peer.frame(PING, b"unanswered"),
                        peer.frame(CONTINUATION, b""), peer.frame(CLOSE, b"\x03\xe9"))  # fmt: skip
        await owner.until("close")
        assert owner.told == [
            ("frame", TEXT, b"tail", False),
            ("frame", CONTINUATION, b"", True),
            ("close", Close(1001)),
        ]
        connection.finish(Close(1002))
        if side is Side.SERVER:
            assert await peer.receive() is None
        peer.sock.close()
        await owner.until("lost")
        assert owner.heard("lost") == [(type(None),)]


@pytest.mark.clause("1.5-7")
@SIDES
async def test_the_peer_closes_in_the_middle_of_a_message(side):
    async with made(side) as (_, owner, peer, _):
        await peer.send(peer.frame(TEXT, b"part", fin=False), peer.frame(CLOSE, b"\x03\xf3boom"))
        await owner.until("close")
        assert owner.told == [("frame", TEXT, b"part", False), ("close", Close(1011, "boom"))]
        answer = await peer.receive()
        assert (answer.opcode, answer.close_code) == (CLOSE, 1011)


@SIDES
async def test_an_owner_that_answers_a_close_itself(side):
    """It may say more first (RFC 6455 §5.5.1)."""
    async with made(side, answer_close=False) as (connection, owner, peer, _):
        await peer.send(peer.frame(CLOSE, b"\x03\xe9"), peer.frame(TEXT, b"unheard"))
        await owner.until("close")
        await turns()
        with pytest.raises(BlockingIOError):
            peer.sock.recv(1)
        connection.send(Frame(Opcode.TEXT, b"the rest"))
        connection.finish(Close(1000, "now"))
        assert await peer.receive_plain() == (TEXT, b"the rest", True)
        assert await peer.receive_plain() == (CLOSE, b"\x03\xe8now", True)
        if side is Side.SERVER:
            assert await peer.receive() is None
        peer.sock.close()
        await owner.until("lost")
        assert owner.told == [("close", Close(1001)), ("lost", type(None))]


@SIDES
async def test_once_finished_a_close_is_answered_for_the_owner(side):
    async with made(side, answer_close=False) as (connection, owner, peer, _):
        connection.finish()
        await peer.send(peer.frame(CLOSE, b"\x03\xe9"))
        assert await peer.receive_plain() == (CLOSE, b"\x03\xe9", True)
        if side is Side.SERVER:
            assert await peer.receive() is None
        peer.sock.close()
        await owner.until("lost")
        assert owner.told == [("lost", type(None))]


@SIDES
async def test_what_comes_behind_a_close_is_not_delivered(side):
    async with made(side) as (_, owner, peer, _):
        await peer.send(peer.frame(CLOSE, b"\x03\xe8"), peer.frame(TEXT, b"x"), b"\xff" * 100)
        await owner.until("close")
        await peer.send(peer.frame(TEXT, b"y"))
        await turns()
        assert owner.told == [("close", Close(1000))]


async def two_connections():
    """A client and a server of ours, by create_server and create_connection."""
    loop = asyncio.get_running_loop()
    owners, timers = (Owner(), Owner()), (Timers(), Timers())
    accepted = loop.create_future()

    def accept():
        connection = FrameConnection(owners[1], Side.SERVER, call_later=timers[1])
        accepted.set_result(connection)
        return connection

    server = await loop.create_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    _, client = await loop.create_connection(
        lambda: FrameConnection(owners[0], Side.CLIENT, call_later=timers[0]), host, port
    )
    connections = (client, await accepted)
    server.close()
    return connections, owners, timers


async def test_closes_that_cross():
    connections, owners, timers = await two_connections()
    connections[0].close(Close(1000, "client"))
    connections[1].close(Close(1001, "server"))
    for connection, owner in zip(connections, owners, strict=True):
        await owner.until("close")
        connection.finish()
    for owner in owners:
        await owner.until("lost")
    assert owners[0].told == [("close", Close(1001, "server")), ("lost", type(None))]
    assert owners[1].told == [("close", Close(1000, "client")), ("lost", type(None))]
    assert [timer.cancelled for timer in (*timers[0].set, *timers[1].set)] == [True, True]


@pytest.mark.parametrize("first", [0, 1], ids=["client first", "server first"])
async def test_finish_does_the_whole_handshake(first):
    """Both owners have only said finish; nothing more is heard but the end."""
    connections, owners, _ = await two_connections()
    connections[first].send(Frame(Opcode.TEXT, b"last word"))
    connections[first].finish(Close(1000, "done"))
    other = owners[1 - first]
    await other.until("close")
    assert other.told == [("frame", TEXT, b"last word", True), ("close", Close(1000, "done"))]
    connections[1 - first].finish()
    for owner in owners:
        await owner.until("lost")
    assert owners[first].told == [("lost", type(None))]


@SIDES
async def test_after_finish_the_owner_hears_only_the_end(side):
    async with made(side) as (connection, owner, peer, _):
        connection.pause_reading()
        await peer.send(peer.frame(TEXT, b"unheard"))
        await turns()
        connection.finish(Close(1001))
        connection.pause_reading()  # cannot hold up an end
        assert connection.reading
        await peer.send(peer.frame(TEXT, b"unheard"), peer.frame(PONG, b""))
        assert (await peer.receive()).close_code == 1001
        await peer.send(peer.frame(CLOSE, b"\x03\xe9"))
        if side is Side.SERVER:
            assert await peer.receive() is None
        peer.sock.close()
        await owner.until("lost")
        assert [told for told in owner.told if told[0] != "pong"] == [("lost", type(None))]


# --- A peer that breaks the rules ----------------------------------------------------------------


BROKEN = pytest.mark.parametrize(
    ("broken", "code"),
    [
        (lambda peer: peer.frame(TEXT, b"", rsv=4), 1002),
        (lambda peer: peer.frame(3), 1002),
        (lambda peer: peer.frame(CONTINUATION, b"x"), 1002),
        (lambda peer: raw.frame(TEXT, b"x", mask=None if peer.mask else KEY), 1002),
        (lambda peer: peer.frame(CLOSE, b"\x03"), 1002),
        (lambda peer: peer.frame(CLOSE, b"\x03\xed"), 1002),
        (lambda peer: peer.frame(CLOSE, b"\x03\xe8\xff"), 1007),
        (lambda peer: peer.frame(BINARY, b"", announced=2**40), 1009),
    ],
    ids=["rsv", "opcode", "continuation", "mask", "1 byte", "1005", "reason", "too big"],
)


@pytest.mark.clause("1.3-3", "1.5-4", "1.5-5", "1.5-6")
@SIDES
@BROKEN
async def test_a_peer_that_fails_is_told_why(side, broken, code):
    async with made(side) as (connection, owner, peer, _):
        owner.on_failure = lambda _: connection.finish()
        await peer.send(peer.frame(TEXT, b"good"), broken(peer), peer.frame(TEXT, b"unheard"))
        await owner.until("failed")
        (close,) = await peer.drain()
        assert (close.opcode, close.close_code) == (CLOSE, code)
        assert close.close_reason
        peer.sock.close()
        await owner.until("lost")
        assert owner.told == [
            ("frame", TEXT, b"good", True),
            ("failed", code),
            ("lost", type(None)),
        ]


@pytest.mark.clause("1.5-4")
@SIDES
async def test_the_close_arrives_even_when_the_peer_goes_on_sending(side):
    """Closing TCP over unread input would send RST, and RST erases the Close."""
    async with made(side) as (connection, owner, peer, _):
        owner.on_failure = lambda _: connection.finish()
        await peer.send(peer.frame(TEXT, rsv=1))
        await peer.send(*(peer.frame(BINARY, bytes(65536)) for _ in range(64)))
        await owner.until("failed")
        await peer.send(*(peer.frame(BINARY, bytes(65536)) for _ in range(64)))
        (close,) = await peer.drain()
        assert (close.opcode, close.close_code) == (CLOSE, 1002)
        peer.sock.close()
        await owner.until("lost")
        assert owner.heard("lost") == [(type(None),)]


async def test_the_close_arrives_though_reading_was_paused():
    """The fault lies in bytes that had been read and held back; the socket holds more."""
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        owner.on_frame = lambda _: connection.pause_reading()
        owner.on_failure = lambda _: connection.finish()
        await peer.send(peer.frame(TEXT, b"x"), peer.frame(TEXT, rsv=1), bytes(100_000))
        await owner.until("frame")
        await peer.send(bytes(100_000))
        await turns()
        connection.resume_reading()
        await owner.until("failed")
        (close,) = await peer.drain()
        assert close.close_code == 1002


async def test_a_failed_peer_does_not_get_our_frames():
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        await peer.send(peer.frame(TEXT, rsv=1))
        await owner.until("failed")
        connection.send(Frame(Opcode.TEXT, b"x"))
        connection.ping(b"x")
        connection.finish(Close(1000))
        assert [frame.close_code for frame in await peer.drain()] == [1002]


# --- Ends that are not clean ---------------------------------------------------------------------


@pytest.mark.clause("1.5-13")
@SIDES
async def test_a_peer_that_does_not_answer_a_close_is_cut(side):
    async with made(side, linger=7.0) as (connection, owner, peer, timers):
        connection.finish(Close(1000))
        connection.finish(Close(1001))  # said once
        assert [timer.delay for timer in timers.set] == [7.0]
        assert (await peer.receive()).close_code == 1000
        await peer.send(*(peer.frame(TEXT, b"busy") for _ in range(100)))
        await turns()
        assert not connection.lost
        timers.set[0].callback()
        await owner.until("lost")
        assert len(timers.set) == 1
        with contextlib.suppress(ConnectionResetError):
            assert await peer.receive() is None


@pytest.mark.clause("1.5-13")
async def test_a_server_that_does_not_end_tcp_is_cut():
    async with made(Side.CLIENT) as (connection, owner, peer, timers):
        owner.on_close = lambda _: connection.finish()
        await peer.send(peer.frame(CLOSE, b"\x03\xe8"))
        await owner.until("close")
        await turns()
        assert not connection.lost
        timers.set[0].callback()
        await owner.until("lost")


@pytest.mark.clause("1.5-13")
@SIDES
async def test_a_close_that_cannot_be_written_becomes_an_abort(side):
    """The peer reads nothing. As long as what is unsent shrinks, it is waited for."""
    async with made(side) as (connection, owner, peer, timers):
        sent = await fill(connection, owner)
        for _ in range(20):
            connection.send(Frame(Opcode.BINARY, bytes(MIB)))
        connection.finish(Close(1011))
        unsent = connection.unsent_bytes
        while connection.unsent_bytes == unsent:
            assert (await peer.receive()).opcode == BINARY
        await settled(connection)
        assert 0 < connection.unsent_bytes < unsent
        timers.set[0].callback()  # it has shrunk
        await turns()
        assert not connection.lost
        assert len(timers.set) == 2
        looks = 1
        while looks < len(timers.set):  # the kernel may take a little more between two looks
            looks = len(timers.set)
            timers.set[-1].callback()
        await owner.until("lost")  # it has not
        assert len(timers.set) == looks
        received = 0
        with contextlib.suppress(ConnectionResetError, AssertionError):
            while (frame := await peer.receive()) is not None:
                assert frame.opcode == BINARY
                received += 1
        assert received < sent + 20


class Dribbling(asyncio.Transport):
    """A transport whose peer takes one byte between two looks."""

    def __init__(self):
        super().__init__()
        self.unsent = 50
        self.aborted = False

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        self.unsent -= 1
        return self.unsent

    def write(self, data):
        pass

    def abort(self):
        self.aborted = True


@pytest.mark.clause("1.5-13")
async def test_a_peer_that_takes_its_last_bytes_one_by_one_is_cut_in_the_end():
    timers = Timers()
    connection = FrameConnection(Owner(), Side.CLIENT, linger=100.0, call_later=timers)
    transport = Dribbling()
    connection.connection_made(transport)
    connection.finish(Close(1000))
    for _ in range(3):  # FINISH_TIMEOUT is three lingers
        assert not transport.aborted
        timers.set[-1].callback()
    assert transport.aborted


class LostInTheMiddle:
    """A connection that is lost when the first turn of a long read has been delivered."""

    def __init__(self, turns_left, last=b""):
        self.owner = Owner()
        self.connection = FrameConnection(self.owner, Side.CLIENT, call_later=Timers())
        self.connection.connection_made(AlwaysFull(self.connection))
        self.count = (1 + turns_left) * FRAMES_PER_TURN
        self.connection.data_received(raw.frame(BINARY, b"x") * self.count + last)
        assert len(self.owner.heard("frame")) == FRAMES_PER_TURN

    def lose(self):
        self.connection.connection_lost(ConnectionResetError())
        return self.owner


@pytest.mark.clause("1.5-3", "1.5-13")
async def test_what_waits_for_its_turn_when_the_transport_goes_is_delivered_in_turns():
    """A Close that came in the same read as many frames names the end, not the reset after it."""
    lost = LostInTheMiddle(3, last=raw.frame(CLOSE, b"\x03\xf3"))
    owner = lost.lose()
    assert lost.connection.lost
    assert not owner.heard("lost")
    seen = [len(owner.heard("frame"))]
    while not owner.heard("lost"):
        await asyncio.sleep(0)
        seen.append(len(owner.heard("frame")))
    assert max(after - before for before, after in itertools.pairwise(seen)) == FRAMES_PER_TURN
    assert len(owner.heard("frame")) == lost.count
    assert owner.told[-2:] == [("close", Close(1011)), ("lost", ConnectionResetError)]


@pytest.mark.parametrize(
    "leave",
    [
        lambda connection: connection.finish(Close(1001)),
        lambda connection: connection.abort(),
        lambda connection: connection.pause_reading(),
    ],
    ids=["finish", "abort", "pause"],
)
@pytest.mark.parametrize("within", [True, False], ids=["in a callback", "between turns"])
async def test_what_waits_for_its_turn_on_a_lost_connection_may_be_given_up(leave, within):
    lost = LostInTheMiddle(3)
    connection, owner = lost.connection, lost.lose()
    if within:
        owner.on_frame = lambda _: leave(connection)
    else:
        leave(connection)
    await owner.until("lost")
    connection.resume_reading()
    every_intent(connection)
    await turns()
    assert len(owner.heard("frame")) == FRAMES_PER_TURN + within
    assert owner.told[-1] == ("lost", ConnectionResetError)


async def test_a_pause_on_a_lost_connection_that_is_over_before_its_turn_loses_nothing():
    lost = LostInTheMiddle(1)
    connection, owner = lost.connection, lost.lose()
    connection.pause_reading()
    connection.resume_reading()
    owner.on_frame = lambda _: (connection.pause_reading(), connection.resume_reading())
    await owner.until("lost")
    assert len(owner.heard("frame")) == lost.count


async def test_nobody_hears_what_waited_on_a_connection_that_was_finished():
    lost = LostInTheMiddle(100)
    lost.connection.finish(Close(1001))
    owner = lost.lose()
    await asyncio.sleep(0)
    assert len(owner.heard("frame")) == FRAMES_PER_TURN
    assert owner.told[-1] == ("lost", ConnectionResetError)


@pytest.mark.clause("1.5-13")
@SIDES
async def test_a_slow_peer_gets_everything_and_the_close(side):
    async with made(side) as (connection, owner, peer, _):
        sent = await fill(connection, owner)
        connection.finish(Close(1001))
        await peer.send(peer.frame(CLOSE, b"\x03\xe8"))
        await turns()
        frames = [await peer.receive() for _ in range(sent + 1)]
        assert [frame.opcode for frame in frames] == [BINARY] * sent + [CLOSE]
        assert frames[-1].close_code == 1001
        if side is Side.SERVER:
            assert await peer.receive() is None
        peer.sock.close()
        await owner.until("lost")
        assert owner.heard("lost") == [(type(None),)]


@pytest.mark.clause("1.5-3")
@SIDES
async def test_eof_and_rst(side):
    async with made(side) as (_, owner, peer, _):
        await peer.send(peer.frame(TEXT, b"last"), peer.frame(TEXT, b"half")[:3])
        peer.sock.shutdown(socket.SHUT_WR)
        await owner.until("lost")
        assert owner.told == [("frame", TEXT, b"last", True), ("lost", type(None))]
        assert await peer.receive() is None
    async with made(side) as (_, owner, peer, _):
        peer.reset()
        await owner.until("lost")
        ((error,),) = owner.heard("lost")
        assert error is ConnectionResetError


async def test_all_that_came_before_the_end_is_delivered_before_it():
    """More frames than one turn takes, then EOF at once."""
    async with made(Side.CLIENT) as (_, owner, peer, _):
        count = 3 * FRAMES_PER_TURN
        await peer.send(peer.frame(BINARY, b"x") * count, peer.frame(CLOSE, b"\x03\xf3"))
        peer.sock.shutdown(socket.SHUT_WR)
        await owner.until("lost")
        assert len(owner.heard("frame")) == count
        assert owner.told[-2:] == [("close", Close(1011)), ("lost", type(None))]


@SIDES
async def test_abort(side):
    async with made(side) as (connection, owner, _, _):
        connection.send(Frame(Opcode.TEXT, b"x"))
        connection.abort()
        assert not connection.lost
        every_intent(connection)  # before the transport has said that it is gone
        await owner.until("lost")
        assert owner.told == [("lost", type(None))]
        assert connection.lost


def every_intent(connection):
    connection.send(Frame(Opcode.TEXT, b"x"))
    connection.flushed(connection.ping(b"x"))
    assert connection.buffered_bytes >= connection.unsent_bytes >= 0
    assert connection.taken_bytes >= 0
    connection.pause_reading()
    connection.resume_reading()
    connection.close()
    connection.finish(Close(1001))
    connection.pause_reading()
    connection.resume_reading()
    connection.abort()


@SIDES
async def test_after_the_end_nothing_does_anything(side):
    async with made(side) as (connection, owner, peer, timers):
        peer.sock.close()
        await owner.until("lost")
        every_intent(connection)
        connection.connection_lost(None)  # an HTTP server's protocol may pass it on twice
        assert owner.told == [("lost", type(None))]
        assert timers.set == []
        assert connection.lost
        assert connection.unsent_bytes == 0


async def test_what_was_held_back_is_not_delivered_after_the_end():
    async with made(Side.CLIENT) as (connection, owner, peer, _):
        owner.on_frame = lambda _: connection.pause_reading()
        await peer.send(peer.frame(TEXT, b"1"), peer.frame(TEXT, b"2"))
        await owner.until("frame")
        connection.abort()
        await owner.until("lost")
        connection.resume_reading()
        await turns()
        assert owner.told == [("frame", TEXT, b"1", True), ("lost", type(None))]


async def test_an_owner_may_abort_in_any_callback():
    for what in ("frame", "close", "failed"):
        async with made(Side.CLIENT) as (connection, owner, peer, _):

            def abort(_, connection=connection):
                connection.abort()

            owner.on_frame = owner.on_close = owner.on_failure = abort
            await peer.send(
                {
                    "frame": peer.frame(TEXT, b"x"),
                    "close": peer.frame(CLOSE),
                    "failed": peer.frame(TEXT, rsv=1),
                }[what]
            )
            await owner.until("lost")
            assert [told[0] for told in owner.told] == [what, "lost"]


async def test_the_loops_own_clock_by_default():
    owner = Owner()
    connection = FrameConnection(owner, Side.CLIENT, linger=0.05)
    ours, theirs = socket_pair()
    with theirs:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=ours)
        connection.finish(Close(1000))
        await owner.until("lost")


# --- Taking a transport over ---------------------------------------------------------------------


class Head(asyncio.Protocol):
    """Reads a head that ends with a blank line, then does what it was made with."""

    def __init__(self, done):
        self.received = b""
        self.transport = None
        self._done = done

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        _, blank, behind = self.received.partition(b"\r\n\r\n")
        if blank:
            self._done(self.transport, behind)


@contextlib.asynccontextmanager
async def taken_over(take, **options):
    owner = Owner()
    connection = FrameConnection(owner, Side.CLIENT, **options)
    ours, theirs = socket_pair()
    with theirs:
        protocol = Head(lambda transport, behind: take(connection, transport, behind))
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: protocol, sock=ours
        )
        try:
            yield connection, owner, Peer(theirs, masks=False)
        finally:
            transport.abort()
            await owner.until("lost")


async def test_take_over_with_bytes_behind_the_head():
    data = raw.frame(TEXT, b"first") + raw.frame(TEXT, b"second")
    for cut in (0, 1, 7, 8, len(data)):
        async with taken_over(FrameConnection.take_over) as (connection, owner, peer):
            await peer.send(b"head\r\n\r\n" + data[:cut])
            await turns()
            await peer.send(data[cut:])
            await owner.until("frame", 2)
            assert [frame[1] for frame in owner.heard("frame")] == [b"first", b"second"]
            connection.send(Frame(Opcode.TEXT, b"back"))
            assert await peer.receive_plain() == (TEXT, b"back", True)


async def test_take_over_of_a_transport_that_is_paused():
    def take(connection, transport, behind):
        transport.pause_reading()
        connection.take_over(transport, behind)

    async with taken_over(take) as (_, owner, peer):
        await peer.send(b"head\r\n\r\n", peer.frame(TEXT, b"1"))
        await owner.until("frame")
        await peer.send(peer.frame(TEXT, b"2"))
        await owner.until("frame", 2)


async def test_take_over_by_an_owner_that_pauses_at_once():
    def take(connection, transport, behind):
        connection._handler.on_frame = lambda _: connection.pause_reading()
        connection.take_over(transport, behind)

    async with taken_over(take) as (connection, owner, peer):
        await peer.send(b"head\r\n\r\n", peer.frame(TEXT, b"1"), peer.frame(TEXT, b"2"))
        await owner.until("frame")
        await peer.send(peer.frame(TEXT, b"3"))
        await turns()
        assert [frame[1] for frame in owner.heard("frame")] == [b"1"]
        connection.resume_reading()
        connection.resume_reading()
        await turns()
        connection.resume_reading()
        await owner.until("frame", 3)


async def test_take_over_by_an_owner_that_is_not_ready():
    """Paused before, it neither hears of a frame nor reads the socket."""

    def take(connection, transport, behind):
        connection.pause_reading()
        connection.take_over(transport, behind)

    async with taken_over(take) as (connection, owner, peer):
        await peer.send(b"head\r\n\r\n", peer.frame(TEXT, b"1"))
        await turns()
        held = connection.buffered_bytes
        await peer.send(peer.frame(TEXT, b"2"))
        await turns()
        assert owner.told == []
        assert connection.buffered_bytes == held
        connection.resume_reading()
        await owner.until("frame", 2)
        assert [frame[1] for frame in owner.heard("frame")] == [b"1", b"2"]


async def test_take_over_of_a_transport_that_is_going():
    def take(connection, transport, behind):
        transport.abort()
        connection.take_over(transport, behind)
        assert connection._handler.told == []  # only once this has returned

    async with taken_over(take) as (connection, owner, peer):
        await peer.send(b"head\r\n\r\n", peer.frame(TEXT, b"x"))
        await owner.until("lost")
        assert owner.told == [("lost", ConnectionResetError)]
        assert connection.lost


@contextlib.asynccontextmanager
async def http_server(handler):
    """aiohttp's server with one route."""
    application = web.Application()
    application.router.add_get("/ws", handler)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()


REQUEST = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


class Upgrading:
    """A handler that writes a 101 and hands its transport over; ``before`` runs in between."""

    def __init__(self, before=None):
        self.owner = Owner()
        self.connection = None
        self.http = None
        self._before = before
        self.handler_left = asyncio.Event()

    async def handle(self, request):
        self.connection = FrameConnection(self.owner, Side.SERVER, linger=1.0)
        self.owner.on_close = lambda _: self.connection.finish()
        if self._before is not None:
            await self._before(request)
        if request.transport is not None:
            request.transport.write(SWITCHING)
        self.http = request.protocol
        self.connection.take_over_from(self.http)
        try:
            await self.owner.until("lost")
        finally:
            self.handler_left.set()
        return web.Response()


async def connected(address):
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, address)
    return Peer(sock, masks=True)


async def head_of(peer):
    async with asyncio.timeout(PATIENCE):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await asyncio.get_running_loop().sock_recv(peer.sock, 1)
    assert head == SWITCHING


@pytest.mark.parametrize("behind", ["nothing", "frames", "half a frame", "a lot"])
async def test_take_over_from_an_http_server(behind):
    """Bytes that its parser had read behind the head come through, in order, and none is lost."""
    upgrading = Upgrading()
    async with http_server(upgrading.handle) as address:
        peer = await connected(address)
        with peer.sock:
            frames = [peer.frame(BINARY, b"%d" % number) for number in range(10)]
            if behind == "a lot":  # more than the server gathers before it stops reading
                frames = [peer.frame(BINARY, b"%d" % n + bytes(60_000)) for n in range(10)]
            data = b"".join(frames)
            cut = {"nothing": 0, "frames": len(data), "half a frame": 12, "a lot": 200_000}[behind]
            await peer.send(REQUEST + data[:cut])
            await head_of(peer)
            await peer.send(data[cut:])
            await upgrading.owner.until("frame", 10)
            numbers = [int(frame[1][:1]) for frame in upgrading.owner.heard("frame")]
            assert numbers == list(range(10))
            upgrading.connection.send(Frame(Opcode.TEXT, b"back"))
            assert await peer.receive_plain() == (TEXT, b"back", True)
            await peer.send(peer.frame(CLOSE, b"\x03\xe8"))
            assert (await peer.receive()).close_code == 1000
            assert await peer.receive() is None
        await upgrading.owner.until("lost")
        await upgrading.handler_left.wait()
        assert upgrading.http.transport is None  # it knows, and lets go
        assert upgrading.owner.told[-2:] == [("close", Close(1000)), ("lost", type(None))]


async def test_an_http_server_that_gathered_a_lot_reads_on():
    """It pauses its transport at a limit of its own; taken over, reading goes on."""
    released = asyncio.Event()

    async def wait(request):
        await released.wait()

    upgrading = Upgrading(before=wait)
    async with http_server(upgrading.handle) as address:
        peer = await connected(address)
        with peer.sock:
            await peer.send(REQUEST)
            frame = peer.frame(BINARY, bytes(60_000))
            sending = asyncio.create_task(peer.send(*[frame] * 200))
            await turns()
            released.set()
            await sending
            await upgrading.owner.until("frame", 200)
        await upgrading.owner.until("lost")


async def test_a_client_that_leaves_ends_the_connection_and_the_handler():
    upgrading = Upgrading()
    async with http_server(upgrading.handle) as address:
        peer = await connected(address)
        with peer.sock:
            await peer.send(REQUEST)
            await head_of(peer)
            peer.reset()
        await upgrading.owner.until("lost")
        assert upgrading.owner.told == [("lost", ConnectionResetError)]
        async with asyncio.timeout(PATIENCE):
            await upgrading.handler_left.wait()


async def test_a_client_that_left_before_the_takeover():
    """The HTTP server's protocol has no transport any more: an end like any other."""

    async def gone(request):
        request.transport.abort()
        await eventually(lambda: request.transport is None)

    upgrading = Upgrading(before=gone)
    async with http_server(upgrading.handle) as address:
        peer = await connected(address)
        with peer.sock:
            await peer.send(REQUEST)
            async with asyncio.timeout(PATIENCE):
                await upgrading.handler_left.wait()
    assert upgrading.owner.told == [("lost", ConnectionResetError)]
