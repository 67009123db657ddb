"""Tokens a second: through gateway and runtime, through the runtime alone, and of the engine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks import peers
from benchmarks.rounds import UNMEASURED
from benchmarks.text_engine import bare_engine
from benchmarks.text_models import ALPHABET, Made
from benchmarks.text_replies import Figures, Reply, WrongReply, check, held, prompts
from benchmarks.text_ways import (
    CONTAINER_PATH,
    GATEWAY_PATH,
    LOAD_TIMEOUT,
    REPLY_TIMEOUT,
    THROUGH_ALL,
    THROUGH_RUNTIME,
    Load,
    Setup,
    client,
    container,
)

_TEXT = "text"
_BARE = "engine in a loop"
_WAYS = (THROUGH_ALL, THROUGH_RUNTIME, _BARE)

#: The goal for gateway and runtime, as a share of the engine's tokens a second; and its streams.
_BARE_GOAL, _BARE_STREAMS = 0.95, 64
#: The goal for one stream, as a share of the rate if each token only read the weights once.
_FLOOR_GOAL = 0.6

_MILLI = 1e3

#: By number of streams and way.
Found = dict[tuple[int, str], Figures]


def measure(setup: Setup, rounds: int) -> tuple[Found, float]:
    """Measure all ways in turn, for each number of streams, round after round; and copying."""
    with ExitStack() as stack:
        runtime = stack.enter_context(container(_TEXT, setup))
        gateway = stack.enter_context(peers.gateway(runtime))
        bare = stack.enter_context(
            bare_engine(setup.made.path, setup.settings, LOAD_TIMEOUT, REPLY_TIMEOUT)
        )
        loads: dict[str, Load] = {
            THROUGH_ALL: client(gateway, GATEWAY_PATH),
            THROUGH_RUNTIME: client(runtime, CONTAINER_PATH),
            _BARE: lambda streams, tokens: bare.replies(prompts(streams), tokens),
        }
        bandwidth = bare.copy_bandwidth() if setup.settings.device != "cpu" else 0.0
        heard: dict[tuple[int, str], list[list[Reply]]] = {}
        for number in range(-1, rounds):
            tokens = setup.tokens if number >= 0 else setup.warm_up_tokens
            for streams in setup.streams:
                replies = {way: load(streams, tokens) for way, load in loads.items()}
                compare(replies, tokens, exact=setup.exact)
                if number >= 0:
                    for way in _WAYS:
                        heard.setdefault((streams, way), []).append(replies[way])
    return {key: Figures.of(each) for key, each in heard.items()}, bandwidth


def compare(replies: dict[str, list[Reply]], tokens: int, *, exact: bool) -> None:
    """Check that the replies of the three ways are right, and the same.

    Raises:
        WrongReply: a reply is wrong.
    """
    expected = [reply.text for reply in replies[_BARE]]
    for way, each in replies.items():
        check(each, tokens, ALPHABET)
        if exact and [reply.text for reply in each] != expected:
            raise WrongReply(f"through {way} a reply is not the engine's")


def table(found: Found | None, streams: Sequence[int]) -> Iterator[str]:
    """The figures in markdown; ratios are the median of those taken within each round."""
    yield (
        "| streams | through | tokens/s | lowest to highest | of the engine's | first part, ms, "
        "median | p99 | gap, ms, p99 | tokens in a part |"
    )
    yield "|---:|---|" + "---:|" * 7
    for count in streams:
        for way in _WAYS:
            cells = _cells(found, count, way) if found else [UNMEASURED] * 7
            yield f"| {count} | {way} | {' | '.join(cells)} |"


def _cells(found: Found, streams: int, way: str) -> list[str]:
    figures = found[streams, way]
    return [
        f"{figures.rate:,.0f}",
        f"{min(figures.rates):,.0f} to {max(figures.rates):,.0f}",
        f"{_share(found, streams, way):.1%}" if way != _BARE else "–",
        *(f"{each * _MILLI:,.1f}" for each in (*figures.first, figures.gap)),
        f"{figures.per_part:.2f}",
    ]


def _share(found: Found, streams: int, way: str) -> float:
    pairs = zip(found[streams, way].rates, found[streams, _BARE].rates, strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def verdict(found: Found | None) -> str:
    """Say whether gateway and runtime reach the goal beside the engine."""
    what = f"{THROUGH_ALL} ÷ {_BARE}, {_BARE_STREAMS} streams, at least {_BARE_GOAL:.0%}"
    if found is None or (_BARE_STREAMS, _BARE) not in found:
        return f"{what}: {UNMEASURED}."
    share = _share(found, _BARE_STREAMS, THROUGH_ALL)
    return f"{what}: {share:.1%}, {held(share >= _BARE_GOAL)}."


def floor_verdict(found: Found | None, made: Made | None, bandwidth: float) -> str:
    """Say how near one stream comes to the limit of the memory's bandwidth."""
    what = f"Share of the floor, 1 stream through {THROUGH_ALL}, at least {_FLOOR_GOAL:.0%}"
    if found is None or made is None or (1, THROUGH_ALL) not in found:
        return f"{what}: {UNMEASURED}."
    floor = made.step_bytes / bandwidth
    share = found[1, THROUGH_ALL].rate * floor
    return (
        f"Floor: {made.step_bytes / 1e9:.2f} GB of weights ÷ {bandwidth / 1e9:,.0f} GB/s = "
        f"{floor * _MILLI:.2f} ms a token. {what}: {share:.1%}, {held(share >= _FLOOR_GOAL)}; "
        f"the {_BARE}: {found[1, _BARE].rate * floor:.1%}."
    )
