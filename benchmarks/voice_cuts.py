"""Answers that are cut at random moments: when each side knows, and what is left behind."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import peers, voice_loads, voice_peers
from benchmarks.chat_peers import asked
from benchmarks.peers import Peer
from benchmarks.rounds import RunError
from benchmarks.text_replies import held
from benchmarks.voice_peers import REALTIME_PATH
from benchmarks.voice_upstream import WORD, prefix

#: Seconds from the begin of speech until the client knows, and between audio frames.
_TOLD, _GAP = 0.15, 0.04
#: Seconds of a word of the story, as the stub speaks it.
_WORD: Final = 0.06 * WORD + 0.06
#: Users who cut, and cuts of each before the leaks are counted.
_USERS: Final = 20
_WARM_UP: Final = 3
#: Seconds in which everything of a stream is gone.
_SETTLING: Final = 10.0
_KIB: Final = 1024
_MILLI: Final = 1e3


@dataclass(frozen=True, slots=True)
class Left:
    """The things that a process holds."""

    descriptors: int
    threads: int
    children: int
    resident: int

    @classmethod
    def by(cls, peer: Peer) -> Left:
        process = psutil.Process(peer.pid)
        with process.oneshot():
            return cls(
                process.num_fds(),
                process.num_threads(),
                len(process.children(recursive=True)),
                process.memory_info().rss,
            )

    def exceeds(self, before: Left) -> bool:
        """Whether there is more of anything but memory."""
        return (
            self.descriptors > before.descriptors
            or self.threads > before.threads
            or self.children > before.children
        )


def measure(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Cut answers, then look at what is left; yield the figures and the marks.

    Args:
        folder: has the sentences.
    """
    with ExitStack() as stack:
        upstream = stack.enter_context(voice_peers.story_teller())
        engines = {"hears": "stub", "speaks": "stub"}
        container = stack.enter_context(voice_peers.chatting_voice(upstream, **engines))
        gateway = stack.enter_context(peers.gateway(container))
        url = f"ws://{gateway.address}{REALTIME_PATH}"
        users = min(_USERS, args.cuts)
        _cut(url, folder, f"--users={users}", f"--cuts={_WARM_UP}", "--first=1")
        before = [_settled(peer, None) for peer in (container, gateway)]
        first = f"--first={1 + users * _WARM_UP}"
        found = _cut(url, folder, f"--users={users}", f"--cuts={args.cuts // users}", first)
        after = [
            _settled(peer, was) for peer, was in zip((container, gateway), before, strict=True)
        ]
        notes = {int(number): note for number, note in _asked(upstream).items()}
        yield from _figures(found, notes)
        for name, was, now in zip(("container", "gateway"), before, after, strict=True):
            more = (now.resident - was.resident) / _KIB
            yield (
                f"{name}: descriptors {was.descriptors} to {now.descriptors}, threads "
                f"{was.threads} to {now.threads}, programs {was.children} to {now.children}, "
                f"{more:+,.0f} KiB: {held(not now.exceeds(was))}"
            )
        turn = voice_loads.turns(url, folder, "--turns=1", "--wire=realtime")
        yield f"a turn after all cuts is answered: {held(turn.are_answered)}"


def _cut(url: str, folder: Path, *options: str) -> dict[str, Any]:
    return voice_loads.run("benchmarks.voice_interrupter", url, str(folder), *options)


def _asked(upstream: Peer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(upstream.address, "/asked")[1])
    return found


def _settled(peer: Peer, before: Left | None) -> Left:
    """Return what a process holds, once that is no more than before, or does not change."""
    until = time.monotonic() + _SETTLING
    left = Left.by(peer)
    while time.monotonic() < until:
        time.sleep(0.5)
        last, left = left, Left.by(peer)
        if left == last if before is None else not left.exceeds(before):
            break
    return left


def _figures(found: dict[str, Any], notes: dict[int, dict[str, Any]]) -> Iterator[str]:
    ways = ", ".join(f"{count} by {way}" for way, count in found["ways"].items())
    yield f"{sum(found['ways'].values()):,} cuts: {ways}"
    if not found["told"]:
        raise RunError("no answer was cut by speech")
    median, p95, most = voice_loads.percentiles(found["told"], 50, 95, 100)
    yield (
        f"told after {median * _MILLI:.0f} ms in the median, {p95 * _MILLI:.0f} p95, "
        f"{most * _MILLI:.0f} at most, mark 150 p95: {held(p95 <= _TOLD)}"
    )
    yield f"parts of audio afterwards: {found['after']}: {held(not found['after'])}"
    yield from _upstream(found["cut"], notes)
    yield from _history(found["heard"], notes)
    silence, late = found["silence"], found["late"]
    yield (
        f"other streams: the longest silence within an answer is {silence * _MILLI:.0f} ms, the "
        f"latest part {late * _MILLI:.0f}, mark 40: {held(silence <= _GAP)}"
    )
    yield f"the load's own frames: {found['lateness']['p99'] * _MILLI:.1f} ms late, p99"


def _upstream(cut: dict[str, float], notes: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Look at the answers of the server behind, for turns that were cut."""
    begun = {number: at for number, at in cut.items() if int(number) in notes}
    ends = {number: notes[int(number)]["cancelled"] for number in begun}
    told = [max(0.0, end - begun[number]) for number, end in ends.items() if end is not None]
    missed = len(ends) - len(told)
    if not told:
        raise RunError("no answer was cancelled upstream")
    median, p95 = voice_loads.percentiles(told, 50, 95)
    yield (
        f"{len(ends):,} answers upstream: cancelled {median * _MILLI:.1f} ms later in the median, "
        f"{p95 * _MILLI:.1f} p95; not cancelled: {missed}: {held(not missed)}"
    )


def _history(
    heard: Sequence[tuple[float, int, int]], notes: dict[int, dict[str, Any]]
) -> Iterator[str]:
    """Compare the next prompt with the words that the client can have heard in full."""
    apart = []
    for seconds, number, following in heard:
        if following in notes:
            said = " ".join(notes[following]["said"][-1:]).split()
            words = sum(word.startswith(prefix(number)) for word in said)
            apart.append(words - int(seconds / _WORD))
    if not apart:
        raise RunError("no turn followed a cut answer")
    furthest = max(map(abs, apart))
    yield (
        f"{len(apart):,} prompts after a cut: the history has {min(apart):+} to {max(apart):+} "
        f"words more than were heard, mark one word apart: {held(furthest <= 1)}"
    )
