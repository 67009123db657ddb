"""The model ``voice`` beside its bare engines and pipecat: words, delays, interruptions, crowds.

``python -m benchmarks.voice`` prints tables in markdown, and whether each mark is held. It fails
when a process does not run or an answer is not whole, never for being slow. ``--quick`` says one
sentence, and fails if its events come in a wrong order.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks import peers, voice_cuts, voice_delays, voice_loads, voice_peers
from benchmarks.load import LoadError
from benchmarks.peers import StartError
from benchmarks.process_meter import Meter
from benchmarks.rounds import RunError
from benchmarks.text_replies import held
from benchmarks.voice_peers import LISTEN_PATH, REALTIME_PATH
from tests.container.models.voice.spoken import SENTENCES, VOICES, spoken, whisper_directory

#: The first event of each type, in a turn that is heard, answered and spoken.
_ORDER: Final = (
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "response.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.done",
)
#: The detectors of turns in crowds.
_DETECTORS: Final = ("energy", "silero")
#: Seconds of a gap between frames of audio.
_GAP: Final = 0.04
_CROWD_TURNS: Final = 4
#: The voice whose sentences are said where its errors do not matter.
_VOICE: Final = "espeak-ng"
_MILLI: Final = 1e3
_MICRO: Final = 1e6


def quick(folder: Path) -> Iterator[str]:
    """Say one sentence through the gateway; check the order of the events.

    Without faster-whisper, a stub hears.

    Raises:
        RunError: the order is wrong, or the answer has no sound.
    """
    is_real = importlib.util.find_spec("faster_whisper") is not None
    hears = f"faster-whisper:{whisper_directory()}" if is_real else "stub"
    with ExitStack() as stack:
        container = stack.enter_context(
            voice_peers.voice(hears=hears, speaks="espeak-ng", answers="stub", language="en")
        )
        gateway = stack.enter_context(peers.gateway(container))
        url = f"ws://{gateway.address}{REALTIME_PATH}"
        turns = voice_loads.turns(url, _sentences(folder, 1), "--turns=1", "--events")
    check_order(turns.events[0])
    yield f"one sentence: {len(_ORDER)} types of events in their order"


def check_order(events: Sequence[str]) -> None:
    """Check that the first event of each type comes in its order.

    Raises:
        RunError: it does not.
    """
    if (found := tuple(dict.fromkeys(events))) != _ORDER:
        raise RunError(f"the events came as {', '.join(found)}; they must be {', '.join(_ORDER)}")


def words(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Compare word error rates; yield the table and the mark."""
    from benchmarks import voice_words  # with engines that a quick run has not

    voices = {}
    for voice in VOICES:
        files = folder / f"spoken-{voice}"
        files.mkdir()
        voices[voice] = spoken(voice, files, args.sentences)
    with ExitStack() as stack:
        hears = f"faster-whisper:{whisper_directory()}"
        container = stack.enter_context(voice_peers.voice(hears=hears))
        gateway = stack.enter_context(peers.gateway(container))
        found = voice_words.measure(f"ws://{gateway.address}{LISTEN_PATH}", voices)
    found["all"] = voice_words.joined(list(found.values()))
    yield "| word errors, % | sentences | bare engine | gateway and `v1/listen` | points more |"
    yield "|---" + "|---:" * 4 + "|"
    for voice, texts in found.items():
        bare, streamed = texts.rates()
        more = streamed - bare
        yield f"| {voice} | {len(texts.said)} | {bare:.1f} | {streamed:.1f} | {more:+.1f} |"
    yield ""
    most = voice_words.MOST_MORE
    yield f"points more in all, mark {most}: {held(more <= most)}"


def delays(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Compare the delays of assistants."""
    yield from voice_delays.measure(args, _sentences(folder, args.sentences))


def cuts(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Cut answers."""
    yield from voice_cuts.measure(args, _sentences(folder, args.sentences))


def crowd(args: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Hold many streams on one core; users and gateway have the other cores."""
    said = _sentences(folder, args.sentences)
    yield (
        "| turns found by | streams | turns | first audio, ms, median | p95 | silence within an "
        "answer, ms, longest | part late, ms, latest | load's own frames late, ms, p99 "
        "| container, µs of CPU for each 20 ms of a stream | its wait for the core, µs | |"
    )
    yield "|---" + "|---:" * 9 + "|---|"
    for detector, streams in zip(_DETECTORS, args.crowd, strict=True):
        settings = {"hears": "stub", "speaks": "stub", "answers": "stub", "turns": detector}
        settings["streams"] = str(streams)
        with ExitStack() as stack:
            container = stack.enter_context(voice_peers.voice(0, **settings))
            gateway = stack.enter_context(peers.gateway(container))
            options = [f"--users={streams}", f"--turns={_CROWD_TURNS}"]
            url = f"ws://{gateway.address}{REALTIME_PATH}"
            meter = Meter(container.pid)
            before = (meter.cpu_seconds(), meter.waiting_seconds())
            found = voice_loads.turns(url, said, *options, core=1)
            after = (meter.cpu_seconds(), meter.waiting_seconds())
        first = voice_loads.percentiles([each for _, each in found.first], 50, 95)
        times = [*first, found.silence, found.late, found.lateness]
        cells = " | ".join(f"{each * _MILLI:,.0f}" for each in times)
        cost, wait = ((b - a) / found.frames * _MICRO for a, b in zip(before, after, strict=True))
        verdict = held(found.silence <= _GAP and found.are_answered)
        count = f"{len(found.first)} of {found.wanted}"
        costs = f"{cost:.0f} | {wait:.0f}"
        yield f"| {detector} | {streams} | {count} | {cells} | {costs} | {verdict} |"


#: The parts of a run, with their headings.
PARTS: Final[dict[str, tuple[str, Callable[[argparse.Namespace, Path], Iterator[str]]]]] = {
    "words": ("Words", words),
    "delays": ("From the end of speech to the first audio", delays),
    "cuts": ("Interruptions", cuts),
    "crowd": ("Many streams on one core", crowd),
}


def _sentences(folder: Path, count: int) -> Path:
    """Return a folder with sentences for the loads."""
    files, said = folder / "files", folder / "said"
    if not said.exists():
        files.mkdir()
        voice_loads.write(said, spoken(_VOICE, files, count))
    return said


def run(args: argparse.Namespace) -> Iterator[str]:
    """Measure the parts; yield lines of markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.quick:
            yield from quick(folder)
            return
        for part in args.parts:
            heading, measure = PARTS[part]
            yield f"## {heading}\n"
            yield from measure(args, folder)
            yield ""


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.voice", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one sentence, and no figures")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sentences", type=int, default=len(SENTENCES), help="of each voice (45)")
    parser.add_argument("--turns", type=int, default=15, help="of one stream in a round (15)")
    parser.add_argument("--rounds", type=int, default=3, help="of the delays (3)")
    parser.add_argument("--cuts", type=int, default=1000, help="of answers (1,000)")
    parser.add_argument(
        "--crowd",
        nargs=2,
        type=int,
        default=[200, 20],
        metavar=("ENERGY", "SILERO"),
        help="streams on one core, by the detector of turns (200 20)",
    )
    parser.add_argument("--smollm2", type=os.path.abspath, help="a folder with SmolLM2-135M")
    parser.add_argument("--text-python", type=os.path.abspath, help="an interpreter with torch")
    parser.add_argument(
        "--pipecat", type=os.path.abspath, metavar="PYTHON", help="an interpreter with pipecat"
    )
    # piper is installed beside this interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        for line in run(parser.parse_args()):
            print(line, flush=True)
    except (StartError, RunError, LoadError) as error:
        print(f"benchmarks.voice: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
