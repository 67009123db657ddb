"""The packets between the supervisor and the gateway process; each may carry descriptors."""

from __future__ import annotations

import errno
import socket
from array import array
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

#: Bytes of a packet. The system's buffers of a Unix socket have 208 KiB.
MAX_PACKET: Final = 128 * 1024

#: Descriptors of a packet; Linux takes 253.
MAX_DESCRIPTORS: Final = 250


class ForkWorker(msgspec.Struct, frozen=True, tag="fork"):
    """Fork a worker; the supervisor answers with :class:`Forked`.

    The first descriptor is memory with the pickled order. The worker gets the others.

    Attributes:
        descriptors: how many there are.
    """

    descriptors: int


class KeepEntry(msgspec.Struct, frozen=True, tag="keep"):
    """Keep an entry with the descriptors; see :class:`partway.gateway.kept_state.KeptState`.

    Attributes:
        descriptors: how many there are.
    """

    name: str
    record: bytes
    pid: int
    descriptors: int


class ForgetEntry(msgspec.Struct, frozen=True, tag="forget"):
    """Drop an entry."""

    name: str


class IsUp(msgspec.Struct, frozen=True, tag="up"):
    """The gateway takes requests: at its end another gateway process starts."""


class HandsOver(msgspec.Struct, frozen=True, tag="hands-over"):
    """The gateway process ends now, for one of new code."""


ToSupervisor: TypeAlias = ForkWorker | KeepEntry | ForgetEntry | IsUp | HandsOver


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """The answer to :class:`ForkWorker`, with a descriptor of the process.

    Attributes:
        pid: of the worker; 0 if it cannot be forked.
        error: the error's number then.
    """

    pid: int
    error: int = 0


class EntryEnded(msgspec.Struct, frozen=True, tag="ended"):
    """The process of an entry has ended."""

    name: str
    status: int


class Signalled(msgspec.Struct, frozen=True, tag="signal"):
    """The supervisor has got a signal."""

    number: int


News: TypeAlias = EntryEnded | Signalled

TO_SUPERVISOR: Final = msgspec.msgpack.Decoder(ToSupervisor)
NEWS: Final = msgspec.msgpack.Decoder(News)
FORKED: Final = msgspec.msgpack.Decoder(Forked)

_ENCODER: Final = msgspec.msgpack.Encoder()


def packet_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep packets apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_packet(
    connection: socket.socket,
    message: ToSupervisor | Forked | News,
    descriptors: Sequence[int] = (),
) -> None:
    """Send one packet.

    Raises:
        OSError: the other side has ended, or takes nothing; or the packet is too large.
    """
    data = _ENCODER.encode(message)
    if len(data) > MAX_PACKET or len(descriptors) > MAX_DESCRIPTORS:
        raise OSError(errno.EMSGSIZE, f"{len(data)} bytes, {len(descriptors)} descriptors")
    socket.send_fds(connection, [data], descriptors)


def received_packet(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next packet, and its descriptors; empty once the other side has ended.

    The system drops descriptors that have no room in this process.

    Raises:
        OSError: nothing has come.
    """
    numbers = array("i")
    # Not socket.recv_fds: that drops the flags.
    data, found, _, _ = connection.recvmsg(
        MAX_PACKET, socket.CMSG_LEN(MAX_DESCRIPTORS * numbers.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for _, _, part in found:
        numbers.frombytes(part[: len(part) - len(part) % numbers.itemsize])
    return data, [*numbers]
