"""Damaged input for every decoder that reads bytes of a peer.

    python -m tests.fuzz.decoders --seconds 600

Valid input is mutated, a few times each, and given to a decoder whole and in pieces. What must come
of it is a result or one of the decoder's declared errors, the same both ways, in a time that grows
with the input's length and no faster. The first thing else ends the run with exit status 1.

An input follows from the seed, the target and its number, so that one can be had again::

    python -m tests.fuzz.decoders --seed 7 --target "request events" --number 31337
"""

from __future__ import annotations

import argparse
import itertools
import random
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgpack

from partway.protocol.errors import IncompleteSignature, MissingAuthenticationToken
from partway.protocol.event_stream.headers import EventStreamError
from partway.protocol.event_stream.part_headers import EventFault
from partway.protocol.event_stream.reader import Decoder, RequestEvents
from partway.protocol.event_stream.response_events import ResponseEvents
from partway.protocol.formats import MediaFault
from partway.protocol.signatures.verification import SignableRequest, read_claim
from partway.protocol.websocket.envelopes import EnvelopeError, JsonEnvelope, MsgpackEnvelope
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError
from tests import event_factory as events
from tests import frame_factory as frames
from tests.fuzz.media_bodies import bodies, decoding

#: Of a frame, a part and a message in these runs: small, so that mutations reach the limits.
LIMIT = 4096

#: One input may take this long, and so much more for each of its bytes; three times in a row.
SLOW = 0.01
SLOW_PER_BYTE = 20e-6

#: Every so many inputs one is grown, to see how its time grows.
GROWN_EVERY = 100
GROWN_BYTES = 30_000
#: Four times the bytes take four times as long, squared they would take sixteen.
GROWTH_OF_TIME = 10
#: Shorter times say nothing about growth.
LEAST_TIME = 0.004

#: What counts and lengths are off by.
NUMBERS = (0, 1, 2, 15, 16, 125, 126, 127, 128, 255, 256, 4095, 4096, 4097, 32767, 32768, 65535,
           65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip


class Found(Exception):
    """A decoder did what it must not; says which, on what, and how to have it again."""


@dataclass
class Target:
    """One decoder, and what it is fed.

    Attributes:
        name: of the target.
        seeds: valid inputs.
        decode: pieces of bytes → the results, one after the other.
        errors: what it may raise.
        mend: makes checksums and lengths of damaged input fit again, as an attacker would.
        results: how many results there were.
        refusals: how many errors.
        inputs: how many inputs.
        seconds: for how long.
        clock: measures what an input costs, in seconds.
    """

    name: str
    seeds: list[bytes]
    decode: Callable[[Iterable[bytes]], Iterator[object]]
    errors: tuple[type[Exception], ...]
    mend: Callable[[bytes], bytes] | None = None
    results: int = 0
    refusals: int = 0
    inputs: int = 0
    seconds: float = 0.0
    clock: Callable[[], float] = time.process_time

    def outcome(self, pieces: Iterable[bytes]) -> tuple[list[object], str | None]:
        """The results, and the error if one came."""
        results = []
        try:
            for result in self.decode(pieces):
                results.append(result)
        except self.errors as error:
            return results, f"{type(error).__name__}: {error}"
        return results, None

    def try_one(self, seed: int, number: int) -> None:
        """Input ``number`` of ``seed``.

        Raises:
            Found: the decoder did what it must not.
        """
        rng = random.Random(f"{seed}/{self.name}/{number}")
        data = self._damaged(rng)
        again = f'--seed {seed} --target "{self.name}" --number {number}'
        try:
            whole = self._timed(data, again)
            pieces = _cut(data, rng)
            cut = self.outcome(pieces)
            if number % GROWN_EVERY == 0:
                self._grow(data, rng, again)
        except Found:
            raise
        except Exception as error:
            what = f"{type(error).__name__} is none of its errors"
            raise Found(f"{self.name}: {what}\n{again}\n{data[:2000].hex()}") from error
        if cut != whole:
            lengths = [len(piece) for piece in pieces]
            what = f"other results of pieces of {lengths[:20]} bytes than of the whole"
            raise Found(f"{self.name}: {what}\n{again}\n{data[:2000].hex()}")
        self.inputs += 1
        self.results += len(whole[0])
        self.refusals += whole[1] is not None

    def _damaged(self, rng: random.Random) -> bytes:
        data = rng.choice(self.seeds)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4, 8))):
            data = mutate(data, rng, self.seeds)
        if self.mend is not None and rng.random() < 0.7:
            data = self.mend(data)
        if rng.random() < 0.2:
            data += rng.choice(self.seeds)
        return data

    def _timed(self, data: bytes, again: str) -> tuple[list[object], str | None]:
        allowed = SLOW + SLOW_PER_BYTE * len(data)
        for _ in range(3):
            start = self.clock()
            outcome = self.outcome([data])
            taken = self.clock() - start
            if taken < allowed:
                return outcome
        what = f"{taken:.3f} s for {len(data)} bytes"
        raise Found(f"{self.name}: {what}\n{again}\n{data[:2000].hex()}")

    def _grow(self, data: bytes, rng: random.Random, again: str) -> None:
        """Repeat a piece of the input, or all of it, and see how the time grows."""
        start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        if start == end or rng.random() < 0.3:
            start, end = 0, len(data)
        if start == end:
            return
        times = max(GROWN_BYTES // (end - start), 1)
        mended = rng.random() < 0.5
        size = rng.choice((1, 40, 1000, 10**9))

        def cost(factor: int) -> float:
            grown = data[:start] + data[start:end] * (times * factor) + data[end:]
            if mended and self.mend is not None:
                grown = self.mend(grown)
            pieces = [grown[at : at + size] for at in range(0, len(grown), size)]
            taken = []
            for _ in range(3):
                begin = self.clock()
                self.outcome(pieces)
                taken.append(self.clock() - begin)
                if taken[-1] < LEAST_TIME:
                    break
            return min(taken)

        def grows() -> bool:
            large = cost(4)
            return large > LEAST_TIME * GROWTH_OF_TIME and large > GROWTH_OF_TIME * cost(1)

        if all(grows() for _ in range(3)):  # what others do to the machine's caches comes and goes
            what = (
                f"time grows faster than its input: bytes {start} to {end} repeated {times} times"
            )
            raise Found(f"{self.name}: {what}\n{again}\n{data[:2000].hex()}")


# --- Mutations -----------------------------------------------------------------------------------


def mutate(data: bytes, rng: random.Random, seeds: list[bytes]) -> bytes:
    """One small damage."""
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 4, 16, 64)))
    match rng.randrange(8):
        case 0 if at < len(data):
            flipped = data[at] ^ 1 << rng.randrange(8)
            return data[:at] + bytes([flipped]) + data[at + 1 :]
        case 1 if at < len(data):
            return data[:at] + rng.randbytes(1) + data[at + 1 :]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:at] + data[at:end] * rng.choice((2, 3, 50)) + data[end:]
        case 4:
            return data[:at] + rng.randbytes(rng.choice((1, 2, 7))) + data[at:]
        case 5:
            size = rng.choice((1, 2, 4, 8))
            number = rng.choice(NUMBERS) & ((1 << 8 * size) - 1)
            return data[:at] + number.to_bytes(size, "big") + data[at + size :]
        case 6:
            other = rng.choice(seeds)
            return data[:at] + other[rng.randrange(len(other) + 1) :]
        case _:
            return data[:at]


def mend_message(data: bytes) -> bytes:
    """An event stream message whose lengths and checksums fit, whatever else is wrong with it."""
    if len(data) < 16:
        return data
    (headers,) = struct.unpack_from("!I", data, 4)
    return events.message(data[12:-4], headers_length=min(headers, len(data) - 16))


def mend_signed(data: bytes) -> bytes:
    """The same of a message in a message, if that is where the inner one begins."""
    block = events.signed_headers()
    at = 12 + len(block)
    inner = mend_message(data[at:-4])
    # Three of four inner ones are mended; which, follows from the bytes.
    if data[12:at] == block and zlib.crc32(data) & 3:
        return events.signed(inner)
    return mend_message(data)


def _cut(data: bytes, rng: random.Random) -> list[bytes]:
    if rng.random() < 0.3:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(6)))
    return [data[start:end] for start, end in itertools.pairwise([0, *cuts, len(data)])]


# --- Targets -------------------------------------------------------------------------------------


def _drained(decoder: object, take: Callable[[], object | None]) -> Callable[..., Iterator[object]]:
    def decode(pieces: Iterable[bytes]) -> Iterator[object]:
        for piece in pieces:
            decoder.feed(piece)  # type: ignore[attr-defined]
            while (result := take()) is not None:
                yield result

    return decode


def _messages(pieces: Iterable[bytes]) -> Iterator[object]:
    decoder = Decoder(LIMIT, LIMIT)
    return _drained(decoder, decoder.next_message)(pieces)


def _genuine(date_ms: int, signature: bytes, payload: bytes) -> str | None:
    return "not genuine" if signature[:1] == b"\xff" else None


def _signed_events(pieces: Iterable[bytes]) -> Iterator[object]:
    reader = RequestEvents(LIMIT, _genuine)
    return _drained(reader, reader.next_event)(pieces)


def _events(pieces: Iterable[bytes]) -> Iterator[object]:
    reader = RequestEvents(LIMIT, None)
    return _drained(reader, reader.next_event)(pieces)


def _responses(pieces: Iterable[bytes]) -> Iterator[object]:
    reader = ResponseEvents(LIMIT)
    return _drained(reader, reader.next_event)(pieces)


def _masked_frames(pieces: Iterable[bytes]) -> Iterator[object]:
    decoder = FrameDecoder(masked=True, max_payload=LIMIT, check_text=True)
    return _drained(decoder, decoder.next_frame)(pieces)


def _unmasked_frames(pieces: Iterable[bytes]) -> Iterator[object]:
    decoder = FrameDecoder(masked=False, max_payload=LIMIT)
    return _drained(decoder, decoder.next_frame)(pieces)


def _claims(pieces: Iterable[bytes]) -> Iterator[object]:
    """Lines are the path, the query, and headers."""
    text = b"".join(pieces).decode("utf-8", "surrogateescape")
    path, _, rest = text.partition("\n")
    query, _, rest = rest.partition("\n")
    headers = [line.partition(":") for line in rest.split("\n")]
    pairs = tuple((name, value) for name, _, value in headers)
    yield read_claim(SignableRequest("POST", path, query, pairs))


def _msgpack(pieces: Iterable[bytes]) -> Iterator[object]:
    yield MsgpackEnvelope.decode(b"".join(pieces))


def _json(pieces: Iterable[bytes]) -> Iterator[object]:
    yield JsonEnvelope.decode(b"".join(pieces))


def _frame_seeds(mask: bytes | None) -> list[bytes]:
    parts = [
        frames.frame(frames.TEXT, "grün".encode(), mask=mask),
        frames.frame(frames.BINARY, bytes(200), mask=mask),
        frames.frame(frames.BINARY, b"", mask=mask),
        frames.frame(frames.PING, b"12345678", mask=mask),
        frames.frame(frames.TEXT, b"\xc3", fin=False, mask=mask)
        + frames.frame(frames.PONG, mask=mask)
        + frames.frame(frames.CONTINUATION, b"\xa4", mask=mask),
    ]
    return [*parts, b"".join(parts), frames.close(1000, b"bye", mask=mask)]


_EVERY_HEADER = b"".join(
    [
        events.header("true", events.TRUE), events.header("false", events.FALSE),
        events.header("byte", events.BYTE, -1), events.header("short", events.SHORT, -1),
        events.header("int", events.INT, -1), events.header("long", events.LONG, -1),
        events.header("bytes", events.BYTES, b"abc"), events.header("ü", events.STRING, b"abc"),
        events.header("at", events.TIMESTAMP, 1), events.header("id", events.UUID, bytes(16)),
    ]
)  # fmt: skip
_BARE = [
    events.part(b"Hello ", "UTF8", "PARTIAL"),
    events.part(b"", None, None, content_type=None),
    events.part(bytes(640), more=events.string("P", "abc") + events.string(":x", "y")),
]
_EXCEPTIONS = [
    events.exception("ModelStreamError", b'{"Message":"no","ErrorCode":"1008"}'),
    events.exception("InternalStreamFailure", b'{"Message":"gr\\u00fcn"}'),
]
_SIGNED = [*map(events.signed, _BARE), events.signed(b"")]
_MEMBERS = {"Bytes": b"Hello ", "DataType": "UTF8", "CompletionState": "PARTIAL", "P": "x"}
_AUTHORIZATION = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/eu-west-1/sagemaker/"
    b"aws4_request, SignedHeaders=host;x-amz-date, Signature=" + b"a1" * 32
)
_PRESIGNED = (
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-west-1%2F"
    b"sagemaker%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=300&"
    b"X-Amz-SignedHeaders=host&X-Amz-Signature=" + b"a1" * 32
)


def targets() -> list[Target]:
    """All of them, fresh."""
    of_events = (EventFault,)
    return [
        Target("eventstream", [events.message(), events.message(_EVERY_HEADER, b"x"), *_BARE],
               _messages, (EventStreamError,), mend_message),
        Target("request events", _SIGNED, _signed_events, of_events, mend_signed),
        Target("request events, no auth", [*_BARE, *_SIGNED], _events, of_events, mend_signed),
        Target("response events", [*_BARE, *_EXCEPTIONS], _responses, of_events, mend_message),
        Target("masked frames", _frame_seeds(frames.KEY), _masked_frames, (FrameError,)),
        Target("unmasked frames", _frame_seeds(None), _unmasked_frames, (FrameError,)),
        Target("msgpack", [msgpack.packb({"PayloadPart": _MEMBERS}),
                           msgpack.packb({"InputEnd": {}}),
                           msgpack.packb({"ModelStreamError": {"ErrorCode": "1", "Message": ""}})],
               _msgpack, (EnvelopeError,)),
        Target("json", [b'{"PayloadPart":{"Bytes":"SGVsbG8g","DataType":"UTF8","P":"\\u00fc"}}',
                        b'{"InputEnd":{}}', b'{"InternalStreamFailure": {"Message": "x"}}'],
               _json, (EnvelopeError,)),
        Target("claims", [b"/endpoints/a\n\nhost: a\nX-Amz-Date: 20260102T030405Z\n"
                          b"X-Amz-Security-Token: abc\n" + _AUTHORIZATION,
                          b"/\n" + _PRESIGNED + b"\nhost: a", b"/\na=b&c=%20\nhost: a"],
               _claims, (IncompleteSignature, MissingAuthenticationToken)),
        *(Target(media_type, seeds, decoding(media_type), (MediaFault,))
          for media_type, seeds in bodies().items()),
    ]  # fmt: skip


def fuzz(chosen: list[Target], seconds: float, seed: int) -> None:
    """Give each target its share of the time, in turns; the first turn is had by all.

    Raises:
        Found: one of them did what it must not.
    """
    deadline = time.monotonic() + seconds
    for turn in itertools.count():
        for target in chosen:
            start = time.monotonic()
            for number in range(turn * GROWN_EVERY, (turn + 1) * GROWN_EVERY):
                target.try_one(seed, number)
                if turn and time.monotonic() > deadline:
                    target.seconds += time.monotonic() - start
                    return
            target.seconds += time.monotonic() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decoders")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=[target.name for target in targets()])
    parser.add_argument("--number", type=int, help="only this input of --target")
    options = parser.parse_args(arguments)
    chosen = [target for target in targets() if options.target in (None, target.name)]
    if options.number is not None and options.target is None:
        parser.error("--number is an input of a --target")
    try:
        if options.number is not None:
            chosen[0].try_one(options.seed, options.number)
        else:
            fuzz(chosen, options.seconds, options.seed)
    except Found as found:
        print(found, file=sys.stderr)
        return 1
    for target in chosen:
        rate = f", {target.inputs / target.seconds:.0f}/s" if target.seconds else ""
        print(f"{target.name}: {target.inputs} inputs{rate}, {target.results} results, "
              f"{target.refusals} refused")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
