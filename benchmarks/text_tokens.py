"""Tokens a second: through gateway and runtime, of the engine, and of its peers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks import peers
from benchmarks.text_engine import bare_engine
from benchmarks.text_models import ALPHABET, Made
from benchmarks.text_replies import Figures, Reply, check, held, prompts
from benchmarks.text_vllm import vllm
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
_STATIC = "transformers' generate()"
_VLLM = "vLLM"
#: Ways whose replies come whole: they have no first part.
_WHOLE = (_STATIC, _VLLM)

#: The goals: gateway and runtime as a share of the engine's tokens a second, and the engine as a
#: share of generate()'s; for these numbers of streams.
_BARE_GOAL, _STATIC_GOAL, _GOAL_STREAMS = 0.95, 0.6, (16, 64)
#: The goal for one stream, as a share of the rate if each token only read the weights once.
_FLOOR_GOAL = 0.6

_MILLI = 1e3

#: By number of streams and way.
Found = dict[tuple[int, str], Figures]


def measure(setup: Setup, rounds: int, vllm_python: str | None) -> tuple[Found, float]:
    """Measure all ways in turn, for each number of streams, round after round; and copying.

    Args:
        vllm_python: an interpreter that has vLLM; None leaves it out.
    """
    with ExitStack() as stack:
        runtime = stack.enter_context(container(_TEXT, setup))
        gateway = stack.enter_context(peers.gateway(runtime))
        bare = stack.enter_context(
            bare_engine(setup.made.path, setup.settings, LOAD_TIMEOUT, REPLY_TIMEOUT)
        )
        loads: dict[str, Load] = {
            THROUGH_ALL: client(gateway, GATEWAY_PATH),
            _BARE: lambda streams, tokens: bare.replies(prompts(streams), tokens),
            THROUGH_RUNTIME: client(runtime, CONTAINER_PATH),
            _STATIC: lambda streams, tokens: bare.generate(prompts(streams), tokens),
        }
        if vllm_python is not None:
            loads[_VLLM] = stack.enter_context(vllm(vllm_python, setup.made.path, REPLY_TIMEOUT))
        bandwidth = bare.copy_bandwidth() if setup.settings.device != "cpu" else 0.0
        heard: dict[tuple[int, str], list[list[Reply]]] = {}
        for number in range(-1, rounds):
            tokens = setup.tokens if number >= 0 else setup.warm_up_tokens
            for streams in setup.streams:
                for way, load in loads.items():
                    replies = load(streams, tokens)
                    check(replies, tokens, ALPHABET)
                    if number >= 0:
                        heard.setdefault((streams, way), []).append(replies)
    return {key: Figures.of(each) for key, each in heard.items()}, bandwidth


def table(found: Found) -> Iterator[str]:
    """The figures in markdown; ratios are the median of those taken within each round."""
    yield (
        "| streams | through | tokens/s | lowest to highest | of the engine's | first part, ms, "
        "median | p99 | gap, ms, p99 | tokens in a part |"
    )
    yield "|---:|---|" + "---:|" * 7
    for streams, way in found:
        yield f"| {streams} | {way} | {' | '.join(_cells(found, streams, way))} |"


def _cells(found: Found, streams: int, way: str) -> list[str]:
    figures = found[streams, way]
    times = [f"{each * _MILLI:,.1f}" for each in (*figures.first, figures.gap)]
    return [
        f"{figures.rate:,.0f}",
        f"{min(figures.rates):,.0f} to {max(figures.rates):,.0f}",
        f"{_share(found, streams, way, _BARE):.1%}" if way != _BARE else "–",
        *(["–"] * 4 if way in _WHOLE else [*times, f"{figures.per_part:.2f}"]),
    ]


def _share(found: Found, streams: int, ours: str, theirs: str) -> float:
    pairs = zip(found[streams, ours].rates, found[streams, theirs].rates, strict=True)
    return statistics.median(one / other for one, other in pairs)


def verdicts(found: Found) -> Iterator[str]:
    """Say whether the goals are reached."""
    goals = ((THROUGH_ALL, _BARE, _BARE_GOAL), (_BARE, _STATIC, _STATIC_GOAL))
    for ours, theirs, goal in goals:
        for streams in _GOAL_STREAMS:
            if (streams, theirs) in found:
                share = _share(found, streams, ours, theirs)
                what = f"{ours} ÷ {theirs}, {streams} streams, at least {goal:.0%}"
                yield f"{what}: {share:.1%}, {held(share >= goal)}."


def floor_verdicts(found: Found, made: Made, bandwidth: float) -> Iterator[str]:
    """Say how near one stream comes to the limit of the memory's bandwidth, if one was measured."""
    if (1, THROUGH_ALL) not in found:
        return
    what = f"Share of the floor, 1 stream through {THROUGH_ALL}, at least {_FLOOR_GOAL:.0%}"
    floor = made.step_bytes / bandwidth
    share = found[1, THROUGH_ALL].rate * floor
    yield (
        f"Floor: {made.step_bytes / 1e9:.2f} GB of weights ÷ {bandwidth / 1e9:,.0f} GB/s = "
        f"{floor * _MILLI:.2f} ms a token. {what}: {share:.1%}, {held(share >= _FLOOR_GOAL)}; "
        f"the {_BARE}: {found[1, _BARE].rate * floor:.1%}."
    )
