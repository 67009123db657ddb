"""Policies for an endpoint's streams: modes and time limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from partway.gateway.configuration.expected import number, whole
from partway.gateway.limits import (
    ANSWER_SILENCE,
    CLIENT_PING_INTERVAL,
    CLIENT_PINGS_UNANSWERED,
    CLOSE_TIMEOUT,
    CONTAINER_CONNECT_TIMEOUT,
    CONTAINER_HANDSHAKE_TIMEOUT,
    DRAIN_TIMEOUT,
    HTTP2_PING_INTERVAL,
    INVOCATION_TIMEOUT,
    REQUEST_LIFETIME,
    RESPONSE_LIFETIME,
    STREAM_LIFETIME,
)
from partway.protocol import limits

_Seconds = Annotated[float, number(above=0, unit="seconds")]
_Pings = Annotated[int, whole(1, unit="pings")]
_Bytes = Annotated[int, whole(1, unit="bytes")]


@dataclass(frozen=True, slots=True)
class StreamPolicy:
    """Settings of one endpoint's streams. Times in seconds, sizes in bytes.

    Attributes:
        input_end: when a container hears that its client has ended the input (clause 1.5-12):
            ``close`` at once, as AWS does; ``drain`` when the container is silent. With ``auto``,
            at once if the container says that it finishes first. Otherwise when it has answered
            and is silent.
        normal_close: whether a container's own Close 1000 or 1001 is a ``ModelStreamError``
            (``error``, as documented) or a clean end (``end``; clause 1.5-1).
        signed_end: whether a signed input without its signed end event counts as cut: always
            (``required``), never (``optional``), or except over HTTP/2 with TLS (``auto``; clause
            2.3-2).
        lifetime: a stream's longest life (clause 1.4-5).
        response_lifetime: a response stream's longest life.
        request_lifetime: longest time of a request to a container, to the end of its answer; for a
            response stream, to the answer's head.
        stall_timeout: a blocked direction that moves nothing for so long ends the stream.
        close_timeout: how long a container may be silent before it answers the gateway's Close.
        drain_timeout: silence after the answer, after which the container gets its Close.
        answer_timeout: silence of a container that has not answered yet.
        connect_timeout: time for the container to accept a connection.
        handshake_timeout: time for the container's 101 response.
        invocation_timeout: time for the head of a container's answer to a request, and for a
            silence within the answer's body.
        ping_interval: time between pings to the container.
        pings_unanswered: pings that a container may leave unanswered.
        client_ping_interval: time between pings to a WebSocket client.
        http2_ping_interval: time between pings to a client of HTTP/2.
        client_pings_unanswered: pings that a client may leave unanswered.
        high_water: unsent bytes of one leg at which reading from the other stops.
        low_water: unsent bytes at which reading resumes.
        max_part: largest part.
    """

    input_end: Literal["auto", "close", "drain"] = "auto"
    normal_close: Literal["error", "end"] = "error"
    signed_end: Literal["auto", "required", "optional"] = "auto"
    lifetime: _Seconds = STREAM_LIFETIME
    response_lifetime: _Seconds = RESPONSE_LIFETIME
    request_lifetime: _Seconds = REQUEST_LIFETIME
    stall_timeout: _Seconds = limits.STALL_TIMEOUT
    close_timeout: _Seconds = CLOSE_TIMEOUT
    drain_timeout: _Seconds = DRAIN_TIMEOUT
    answer_timeout: _Seconds = ANSWER_SILENCE
    connect_timeout: _Seconds = CONTAINER_CONNECT_TIMEOUT
    handshake_timeout: _Seconds = CONTAINER_HANDSHAKE_TIMEOUT
    invocation_timeout: _Seconds = INVOCATION_TIMEOUT
    ping_interval: _Seconds = limits.CONTAINER_PING_INTERVAL
    pings_unanswered: _Pings = limits.CONTAINER_PINGS_UNANSWERED
    client_ping_interval: _Seconds = CLIENT_PING_INTERVAL
    http2_ping_interval: _Seconds = HTTP2_PING_INTERVAL
    client_pings_unanswered: _Pings = CLIENT_PINGS_UNANSWERED
    high_water: _Bytes = limits.WRITE_HIGH_WATER
    low_water: _Bytes = limits.WRITE_LOW_WATER
    max_part: Annotated[int, whole(1, limits.MAX_PART_BYTES, "bytes")] = limits.MAX_PART_BYTES
