"""One relay with three codecs and with none: evidence for ``docs/discussion/frame-codec.md``.

``python -m benchmarks.codec_relays CODEC CONTAINER_URL`` relays each stream to the container frame
by frame, in one process and in the transport's callbacks. All relays stop reading one side while
the other side has more unsent bytes than the same limit.
"""

from __future__ import annotations

import argparse
import asyncio
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop
from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSProtocolError,
    WSTransport,
    ws_connect,
    ws_create_server,
)
from websockets.client import ClientProtocol
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode as LibraryOpcode
from websockets.http11 import Request
from websockets.protocol import Protocol as LibraryProtocol
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from partway.protocol.connections.websocket import FrameConnection, Side
from partway.protocol.limits import MAX_PART_BYTES, WRITE_HIGH_WATER, WRITE_LOW_WATER
from partway.protocol.websocket.close_codes import GOING_AWAY, PROTOCOL_ERROR, Close, is_legal
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame
from partway.protocol.websocket.handshake import ClientHandshake, check_upgrade, upgrade_headers

PATH = "/invocations-bidirectional-stream"


# --- Our own -------------------------------------------------------------------------------------


class OwnLeg:
    """The owner of one leg, which sends each received frame on the other leg."""

    other: OwnLeg

    def __init__(self, side: Side) -> None:
        self.connection = FrameConnection(self, side)

    def frame_received(self, frame: Frame) -> None:
        self.other.connection.send(frame)

    def pong_received(self, payload: bytes) -> None:
        """Ignore it: this relay sends no Ping."""

    def close_received(self, close: Close) -> None:
        self.other.connection.close(close)
        self.connection.finish()

    def peer_failed(self, error: FrameError) -> None:
        self.other.connection.finish(Close(GOING_AWAY))
        self.connection.finish()

    def connection_lost(self, error: Exception | None) -> None:
        self.other.connection.finish(Close(GOING_AWAY))

    def writing_paused(self) -> None:
        self.other.connection.pause_reading()

    def writing_resumed(self) -> None:
        self.other.connection.resume_reading()


class OwnOpening(asyncio.Protocol):
    """A client's handshake, as far as this relay needs it."""

    def __init__(self, target: urllib.parse.SplitResult) -> None:
        self._target = target
        self._head = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head and self._task is None:
            self._transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        head, _, trailing = self._head.partition(b"\r\n\r\n")
        request = Head(head)
        client, container = OwnLeg(Side.SERVER), OwnLeg(Side.CLIENT)
        client.other, container.other = container, client
        opening = ContainerOpening(self._target.netloc, container.connection)
        await asyncio.get_running_loop().create_connection(
            lambda: opening, self._target.hostname, self._target.port
        )
        await opening.done
        self._transport.write(request.answer)
        client.connection.take_over(self._transport, trailing)
        self._transport.resume_reading()


class Head:
    """A request's head, parsed without checks, and its 101."""

    def __init__(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        offered = fields.get("Sec-WebSocket-Protocol")
        headers = upgrade_headers(check_upgrade(lines[0].split(" ")[0], fields), offered)
        #: The 101, as bytes to send.
        self.answer = (
            "HTTP/1.1 101 Switching Protocols\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            + "\r\n"
        ).encode()


class ContainerOpening(asyncio.Protocol):
    """The handshake with the container; then the connection takes over."""

    def __init__(self, host: str, connection: FrameConnection) -> None:
        self._handshake = ClientHandshake(host, PATH)
        self._connection = connection
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._transport.write(self._handshake.request)

    def data_received(self, data: bytes) -> None:
        accepted = self._handshake.receive(data)
        if accepted is not None:
            self._connection.take_over(self._transport, accepted.trailing)
            self.done.set_result(None)


async def own(container: str) -> asyncio.Server:
    """``partway.protocol.websocket.frame_decoder`` in ``FrameConnection``."""
    target = urllib.parse.urlsplit(container)
    return await asyncio.get_running_loop().create_server(
        lambda: OwnOpening(target), "127.0.0.1", 0
    )


# --- No codec ------------------------------------------------------------------------------------


class TunnelLeg(asyncio.Protocol):
    """Bytes as they come: the cost of loop and kernel, whatever the codec."""

    other: TunnelLeg

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER, low=WRITE_LOW_WATER)

    def data_received(self, data: bytes) -> None:
        if self.other.transport is not None:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other.transport is not None:
            self.other.transport.close()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.resume_reading()


class TunnelOpening(asyncio.Protocol):
    """The client's first bytes, until the container is connected; then the legs take over."""

    def __init__(self, target: urllib.parse.SplitResult) -> None:
        self._target = target
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._open(data))

    async def _open(self, data: bytes) -> None:
        client, container = TunnelLeg(), TunnelLeg()
        client.other, container.other = container, client
        await asyncio.get_running_loop().create_connection(
            lambda: container, self._target.hostname, self._target.port
        )
        self._transport.set_protocol(client)
        client.connection_made(self._transport)
        client.data_received(data)
        self._transport.resume_reading()


async def tunnel(container: str) -> asyncio.Server:
    """No codec: the least cost of any relay."""
    target = urllib.parse.urlsplit(container)
    return await asyncio.get_running_loop().create_server(
        lambda: TunnelOpening(target), "127.0.0.1", 0
    )


# --- websockets, sans-IO --------------------------------------------------------------------------


class LibraryLeg(asyncio.Protocol):
    """A leg on websockets' sans-IO protocol, frames passed on in ``data_received``."""

    other: LibraryLeg

    def __init__(self, protocol: LibraryProtocol) -> None:
        self.protocol = protocol
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER, low=WRITE_LOW_WATER)

    def data_received(self, data: bytes) -> None:
        self.protocol.receive_data(data)
        other = self.other
        for event in self.protocol.events_received():
            if isinstance(event, LibraryFrame):
                if event.opcode <= LibraryOpcode.BINARY:
                    other.send(event)
            else:
                self.handshake(event)
        other.flush()
        self.flush()
        if self.protocol.close_expected():
            other.close()

    def send(self, frame: LibraryFrame) -> None:
        if self.protocol.state is not State.OPEN:
            return
        if frame.opcode is LibraryOpcode.BINARY:
            self.protocol.send_binary(frame.data, frame.fin)
        elif frame.opcode is LibraryOpcode.TEXT:
            self.protocol.send_text(frame.data, frame.fin)
        else:
            self.protocol.send_continuation(frame.data, frame.fin)

    def flush(self) -> None:
        """Write the protocol's output at once: most of the time is spent here."""
        writes = self.protocol.data_to_send()
        if self.transport is None or not writes:
            return
        self.transport.writelines(writes)
        if not writes[-1]:  # an empty item says that nothing follows
            self.transport.write_eof()

    def handshake(self, event: object) -> None:
        """Handle an event that is not a frame; only the client's leg has an answer."""

    def close(self) -> None:
        if self.protocol.state is State.OPEN:
            self.protocol.send_close(GOING_AWAY)
            self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.other.close()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.resume_reading()


class LibraryClientLeg(LibraryLeg):
    """The leg toward the client: opens the container's leg on the client's request."""

    protocol: ServerProtocol

    def __init__(self, container: str) -> None:
        super().__init__(
            ServerProtocol(
                max_size=(None, MAX_PART_BYTES), select_subprotocol=lambda _, offered: offered[0]
            )
        )
        self._container = container
        self._task: asyncio.Task[None] | None = None
        self.other = self  # until the container's leg is connected

    def handshake(self, event: object) -> None:
        assert isinstance(event, Request)
        assert self.transport is not None
        self.transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._open(event))

    async def _open(self, request: Request) -> None:
        target = urllib.parse.urlsplit(self._container)
        leg = LibraryContainerLeg(f"ws://{target.netloc}{PATH}", self)
        await asyncio.get_running_loop().create_connection(
            lambda: leg, target.hostname, target.port
        )
        await leg.done
        self.other = leg
        self.protocol.send_response(self.protocol.accept(request))
        self.flush()
        if self.transport is not None:
            self.transport.resume_reading()


class LibraryContainerLeg(LibraryLeg):
    protocol: ClientProtocol

    def __init__(self, url: str, client: LibraryLeg) -> None:
        super().__init__(ClientProtocol(parse_uri(url), max_size=(None, MAX_PART_BYTES)))
        self.other = client
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.protocol.send_request(self.protocol.connect())
        self.flush()

    def handshake(self, event: object) -> None:
        if self.protocol.handshake_exc is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.protocol.handshake_exc)


async def websockets(container: str) -> asyncio.Server:
    """Both legs on websockets' ``ServerProtocol`` and ``ClientProtocol``."""
    return await asyncio.get_running_loop().create_server(
        lambda: LibraryClientLeg(container), "127.0.0.1", 0
    )


# --- picows --------------------------------------------------------------------------------------


class CompiledLeg(WSListener):
    """A leg on picows, with the checks of RFC 6455 that picows leaves to its caller."""

    other: CompiledLeg

    def __init__(self) -> None:
        self.transport: WSTransport | None = None
        self._mid_message = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.underlying_transport.set_write_buffer_limits(
            high=WRITE_HIGH_WATER, low=WRITE_LOW_WATER
        )
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            raise WSProtocolError(PROTOCOL_ERROR, "an RSV bit is set (§5.2)")
        opcode = frame.msg_type
        if opcode >= WSMsgType.CLOSE:
            self._control_received(transport, frame)
            return
        if (opcode == WSMsgType.CONTINUATION) is not self._mid_message:
            raise WSProtocolError(PROTOCOL_ERROR, "not the continuation that is due (§5.4)")
        fin = frame.fin
        self._mid_message = not fin
        # The frame points into the read buffer, so that a part needs a copy.
        self.other.transport.send(opcode, frame.get_payload_as_bytes(), fin)

    def _control_received(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            code = frame.get_close_code()
            if frame.payload_size and not is_legal(code):
                raise WSProtocolError(PROTOCOL_ERROR, f"close code {code} is illegal (§7.4)")
            transport.send_close(code, frame.get_close_message())
            if not transport.is_client_side:
                transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.other.transport is not None:
            self.other.transport.send_close(GOING_AWAY)
            self.other.transport.disconnect()

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.underlying_transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.underlying_transport.resume_reading()


class CompiledClientLeg(CompiledLeg):
    """The leg toward the client. picows answers the client before a container can be asked."""

    def __init__(self, container: str, *, fast_transports: bool) -> None:
        super().__init__()
        self._url = container.replace("http", "ws", 1) + PATH
        self._fast_transports = fast_transports
        self._task: asyncio.Task[None] | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        super().on_ws_connected(transport)
        transport.underlying_transport.pause_reading()
        self.other = CompiledLeg()
        self.other.other = self
        self._task = asyncio.get_running_loop().create_task(self._open(transport))

    async def _open(self, transport: WSTransport) -> None:
        await ws_connect(
            lambda: self.other,
            self._url,
            max_frame_size=MAX_PART_BYTES,
            use_aiofastnet=self._fast_transports,
        )
        transport.underlying_transport.resume_reading()


async def picows(container: str, *, fast_transports: bool = True) -> asyncio.Server:
    """Both legs on picows, on the transports that picows prefers (aiofastnet's)."""
    return await ws_create_server(
        lambda _: CompiledClientLeg(container, fast_transports=fast_transports),
        "127.0.0.1",
        0,
        max_frame_size=MAX_PART_BYTES,
        use_aiofastnet=fast_transports,
    )


async def picows_on_uvloop(container: str) -> asyncio.Server:
    """Both legs on picows, on uvloop's own transports, as the other two."""
    return await picows(container, fast_transports=False)


RELAYS: dict[str, Callable[[str], Awaitable[asyncio.Server]]] = {
    "tunnel": tunnel,
    "own": own,
    "websockets": websockets,
    "picows": picows,
    "picows-on-uvloop": picows_on_uvloop,
}


async def _serve(args: argparse.Namespace) -> None:
    server = await RELAYS[args.codec](args.container)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codec_relays", description=__doc__)
    parser.add_argument("codec", choices=RELAYS)
    parser.add_argument("container", help="http://HOST:PORT")
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(args))


if __name__ == "__main__":
    main()
