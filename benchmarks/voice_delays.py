"""From the end of speech to the first audio: through the gateway, without it, and pipecat."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import peers, voice_loads, voice_peers
from benchmarks.peers import Peer
from benchmarks.rounds import UNMEASURED
from benchmarks.text_replies import held
from benchmarks.voice_peers import REALTIME_PATH
from tests.container.models.voice.spoken import whisper_directory
from tests.container.models.voice.voices import piper_voice

#: Seconds: the marks of docs/discussion/voice.md.
_MEDIAN, _P95, _AT_ONCE, _SHARE, _SLOWER = 1.8, 2.8, 0.9, 0.02, 0.05
#: The crowd at which peers are compared, and turns of each of its users in a round.
_CROWD: Final = 20
_CROWD_TURNS: Final = 2
_MILLI: Final = 1e3


@dataclass
class Way:
    """One way to an assistant.

    Attributes:
        url: None if its program is not installed.
        first: seconds to the first audio of each sentence's number, by the number of streams.
        shares: the parts of these times, likewise, where a wire tells them.
        wanted: the turns, likewise.
        lateness: of the load's own frames, the worst 99th percentile.
    """

    name: str
    url: str | None
    wire: str = "realtime"
    streams: Sequence[int] = (1,)
    first: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    shares: dict[int, list[Sequence[float]]] = field(default_factory=dict)
    wanted: dict[int, int] = field(default_factory=dict)
    lateness: float = 0.0

    def measure(self, streams: int, folder: Path, turns: int, begin: int) -> None:
        assert self.url is not None, "it is installed"
        options = [f"--users={streams}", f"--turns={turns}", f"--first={begin}"]
        found = voice_loads.turns(self.url, folder, f"--wire={self.wire}", *options)
        self.first.setdefault(streams, []).extend(found.first)
        self.shares.setdefault(streams, []).extend(found.shares)
        self.wanted[streams] = self.wanted.get(streams, 0) + found.wanted
        self.lateness = max(self.lateness, found.lateness)

    def spread(self, streams: int) -> list[float]:
        """Return the median, the 95th percentile and the longest time."""
        return voice_loads.percentiles([each for _, each in self.first[streams]], 50, 95, 100)


def measure(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Let all ways take turns; yield the table and the marks.

    Args:
        folder: has the sentences.
    """
    with ExitStack() as stack:
        ways = _ways(args, stack)
        for number in range(args.rounds):
            for way in ways:
                for streams in way.streams if way.url else ():
                    turns = args.turns if streams == 1 else _CROWD_TURNS
                    way.measure(streams, folder, turns, number * args.turns)
    yield (
        "| | streams | turns answered | first audio, ms, median | p95 | longest | "
        "of the median: end of the turn | hearing | first phrase | speaking | "
        "load's own frames late, ms, p99 |"
    )
    yield "|---" + "|---:" * 10 + "|"
    for way in ways:
        yield from _rows(way)
    yield ""
    yield from _marks(ways)


def _ways(args: argparse.Namespace, stack: ExitStack) -> list[Way]:
    hears, speaks = f"faster-whisper:{whisper_directory()}", f"piper:{piper_voice()}"
    real = {"hears": hears, "speaks": speaks, "language": "en"}
    stubs = stack.enter_context(voice_peers.voice(hears="stub", speaks="stub", answers="stub"))
    at_once = stack.enter_context(voice_peers.voice(answers="stub", **real))
    ways = [
        Way("stub engines", _direct(stubs)),
        Way("stub engines, gateway", _through(stack, stubs)),
        Way("Whisper, Piper, an answer at once, gateway", _through(stack, at_once)),
    ]
    if args.smollm2 is None:
        return ways
    text = stack.enter_context(voice_peers.language_model(args.text_python, args.smollm2))
    voice = stack.enter_context(voice_peers.chatting_voice(text, **real))
    pipecat = stack.enter_context(
        voice_peers.pipecat(args.pipecat, whisper_directory(), piper_voice(), text)
    )
    both = (1, _CROWD)
    return [
        *ways,
        Way("Whisper, SmolLM2-135M, Piper", _direct(voice)),
        Way("the same, gateway", _through(stack, voice), streams=both),
        Way(
            "pipecat, the same engines",
            f"ws://{pipecat.address}/" if pipecat else None,
            "bare",
            both,
        ),
    ]


def _direct(container: Peer) -> str:
    return f"ws://{container.address}/v1/realtime"


def _through(stack: ExitStack, container: Peer) -> str:
    gateway = stack.enter_context(peers.gateway(container))
    return f"ws://{gateway.address}{REALTIME_PATH}"


def _rows(way: Way) -> Iterator[str]:
    if way.url is None:
        yield f"| {way.name} |" + f" {UNMEASURED} |" * 10
    for streams, first in way.first.items():
        times = " | ".join(f"{each * _MILLI:,.0f}" for each in way.spread(streams))
        late = f"{way.lateness * _MILLI:.1f}"
        parts = " | ".join(_parts(way.shares[streams]))
        count = f"{len(first)} of {way.wanted[streams]}"
        yield f"| {way.name} | {streams} | {count} | {times} | {parts} | {late} |"


def _parts(shares: Sequence[Sequence[float]]) -> list[str]:
    """Return the median of each part, in milliseconds."""
    if not shares:
        return ["–"] * 4
    return [f"{statistics.median(part) * _MILLI:,.0f}" for part in zip(*shares, strict=True)]


def _marks(ways: Sequence[Way]) -> Iterator[str]:
    yield _share("stub engines", ways[0], ways[1], mark=_SHARE)
    median = ways[2].spread(1)[0]
    yield f"an answer at once: median {_verdict(median, _AT_ONCE)}"
    if len(ways) == 3:
        yield f"the language model is {UNMEASURED}: --smollm2 names its folder"
        return
    direct, through, pipecat = ways[3:]
    median, p95, _ = through.spread(1)
    yield f"SmolLM2-135M: median {_verdict(median, _MEDIAN)}, p95 {_verdict(p95, _P95)}"
    yield _share("SmolLM2-135M", direct, through)
    if pipecat.url is not None:
        slower = median - pipecat.spread(1)[0]
        verdict = held(slower <= _SLOWER)
        yield f"slower than pipecat at 1 stream by {slower * _MILLI:,.0f} ms, mark 50: {verdict}"
        theirs, ours = pipecat.spread(_CROWD)[1], through.spread(_CROWD)[1]
        yield (
            f"p95 at {_CROWD} streams: {ours * _MILLI:,.0f} ms, pipecat {theirs * _MILLI:,.0f} ms: "
            f"{held(ours <= theirs)}"
        )


def _share(name: str, direct: Way, through: Way, mark: float | None = None) -> str:
    """Compare the same sentences with and without the gateway."""
    without = dict(direct.first[1])
    added = [first - without[number] for number, first in through.first[1] if number in without]
    share = statistics.median(added) if added else 0.0
    said = f"{name}: the gateway adds {share * _MILLI:.1f} ms in the median"
    return said if mark is None else f"{said}, mark {mark * _MILLI:.0f}: {held(share <= mark)}"


def _verdict(seconds: float, mark: float) -> str:
    return f"{seconds * _MILLI:,.0f} ms, mark {mark * _MILLI:,.0f}: {held(seconds <= mark)}"
