"""The replay of a recording's client side to a container."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from partway.gateway.limits import CONTAINER_HANDSHAKE_TIMEOUT, STREAM_LIFETIME
from partway.gateway.network.dialling import Address, Unreachable, dial
from partway.gateway.streams.container_leg import REQUEST_ID
from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.comparison import StreamAnswers, TimedReply
from partway.gateway.workbench.recording.recording import (
    Joining,
    Recording,
    RecordingError,
    close_in,
)
from partway.gateway.workbench.recording.replayed_stream import ReplayedStream
from partway.protocol.websocket.close_codes import ABNORMAL, NO_STATUS, NORMAL, Close, encode_close
from partway.protocol.websocket.frames import Frame, Opcode
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeRefused

#: Seconds for a container to accept a connection. A container on another machine may be further
#: away than a gateway's.
CONNECT_TIMEOUT: Final = 5.0

#: Seconds of silence that end a wait: before a message for the replies that had preceded it, and at
#: the end for the remaining replies.
PATIENCE: Final = 10.0

#: Waits without a reply after which a container is not waited for.
WAITS_IN_VAIN: Final = 3

#: Most replies, and bytes of them, that a container may send beyond the recorded ones.
MAX_MORE_REPLIES: Final = 1000
MAX_MORE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One frame of the client's, to be sent again.

    Attributes:
        gap: seconds since the client's frame before it, or since the stream's beginning.
        frame: a data frame, or the Close.
        replies: how many of the container's replies had come before this frame.
    """

    gap: float
    frame: Frame
    replies: int


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The frames to send to a container, and the recorded answers.

    Attributes:
        ends: whether the client sent a Close, or the container ended the stream, so that the
            answers are complete.
        cut: whether the client's side ended without a Close.
    """

    steps: tuple[PlannedStep, ...]
    answers: StreamAnswers
    ends: bool
    cut: bool


def plan_of(recording: Recording) -> ReplayPlan:
    """Make a plan of the frames that can be sent again.

    Pings and Pongs are the platform's affair, and no part of the plan.

    Raises:
        RecordingError: the recording's payloads were left out, or its stream was never answered.
    """
    path = recording.path
    if not recording.head.payloads:
        raise RecordingError(f"{path}: the recording has no payloads, so there is nothing to send")
    if recording.answer is None:
        raise RecordingError(
            f"{path}: the recording has no answer to the upgrade, so there is nothing to compare"
        )
    at, said_at = recording.answer.at, recording.answer.at
    steps: list[PlannedStep] = []
    replies: list[TimedReply] = []
    joining = Joining()
    closed = False  # by the client
    code, reason = None, ""
    for passed in recording.frames:
        container = passed.sender is Sender.CONTAINER
        if passed.opcode in (Opcode.PING, Opcode.PONG):
            continue
        if passed.opcode is Opcode.CLOSE and container:
            close = close_in(passed)
            code, reason = close.code or NO_STATUS, close.reason
            break  # later frames mean nothing: the client's Close is the answer to this one
        if container:
            message = joining.add(passed.frame, passed.at)
            if message is not None:
                replies.append(TimedReply(message, passed.at - said_at))
        else:
            steps.append(PlannedStep(passed.at - at, passed.frame, len(replies)))
            at = said_at = passed.at
            closed = closed or passed.opcode is Opcode.CLOSE
    ends = [each.sender for each in recording.ends]
    granted = recording.answer.status == HTTPStatus.SWITCHING_PROTOCOLS
    if code is None and granted and ends[:1] == [Sender.CONTAINER]:
        code = ABNORMAL
    rest = joining.rest()
    if rest is not None and (closed or code is not None):  # else the rest of the reply is unknown
        replies.append(TimedReply(rest, rest.at - said_at))
    return ReplayPlan(
        steps=tuple(steps),
        answers=StreamAnswers(replies, recording.answer.status, code, reason),
        ends=closed or code is not None,
        cut=ends[:1] == [Sender.GATEWAY],
    )


async def replay(
    plan: ReplayPlan,
    address: Address,
    target: str,
    *,
    speed: float = 1.0,
    patience: float = PATIENCE,
) -> StreamAnswers:
    """Send the client's side of a recorded stream to a container.

    Args:
        target: path and query of the stream.
        speed: so many times the recorded pace; 0 for as fast as the replies come.
        patience: seconds that a missing reply is waited for.

    Returns:
        The container's answers, right or wrong.
    """
    headers = [(REQUEST_ID, str(uuid.uuid4()))]
    try:
        upgraded = await dial(
            address,
            ClientHandshake(str(address), target, headers),
            connect_timeout=CONNECT_TIMEOUT,
            handshake_timeout=CONTAINER_HANDSHAKE_TIMEOUT,
        )
    except HandshakeRefused as refusal:
        return StreamAnswers(status=refusal.status)
    except Unreachable as error:
        return StreamAnswers(status=0, trouble=f"cannot open a stream to {address}: {error}")
    answers = plan.answers
    stream = ReplayedStream(
        upgraded,
        patience,
        most_replies=len(answers.replies) + MAX_MORE_REPLIES,
        most_bytes=sum(len(reply.message.payload) for reply in answers.replies) + MAX_MORE_BYTES,
    )
    try:
        async with asyncio.timeout(STREAM_LIFETIME / (speed if 0 < speed < 1 else 1)):
            await _hold(stream, plan, speed)
    except TimeoutError:
        stream.trouble = (
            stream.trouble or "the stream did not end within the longest lifetime of a stream"
        )
    finally:
        stream.abort()
    replies = stream.replies()
    if not plan.ends:  # the recording shows nothing that came later
        replies = replies[: len(answers.replies)]
    return StreamAnswers(
        replies, HTTPStatus.SWITCHING_PROTOCOLS, stream.code, stream.reason, stream.trouble
    )


async def _hold(stream: ReplayedStream, plan: ReplayPlan, speed: float) -> None:
    excused = 0  # replies that have been waited for in vain
    came = silent = 0
    for step in plan.steps:
        await stream.pause(step.gap / speed if speed else 0.0)
        if stream.count != came:
            came, silent = stream.count, 0
        if silent < WAITS_IN_VAIN and not await stream.until_replies(step.replies - excused):
            excused = step.replies - stream.count
            silent += 1
        if not await stream.say(step.frame):
            break
    if not plan.ends:
        await stream.until_replies(len(plan.answers.replies) - excused)
        if plan.cut:
            return
        await stream.say(Frame(Opcode.CLOSE, encode_close(Close(NORMAL))))
    await stream.until_ended()
    if not stream.trouble:  # else it is cut: a container that takes nothing takes no Close
        await stream.finish()
