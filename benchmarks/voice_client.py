"""The load on a voice assistant: users who speak, hear the answer, and speak again.

``python -m benchmarks.voice_client URL FOLDER`` is a process of its own. The folder has the
sentences as WAV files. It prints one JSON object: the turns, and how late its own frames were.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from itertools import pairwise
from pathlib import Path

import uvloop

from benchmarks.voice_task import INSTRUCTIONS, MOST_TOKENS
from benchmarks.voice_users import Microphones, Sentence, TooSlow, Turn, User, opened, sentences
from benchmarks.voice_wires import Bare, Realtime, Wire

#: The events that divide a turn: its end, its text, and the first phrase of the answer.
STEPS = (
    "input_audio_buffer.committed",
    "conversation.item.input_audio_transcription.completed",
    "response.output_audio_transcript.delta",
)


async def converse(
    user: User, said: list[Sentence], args: argparse.Namespace, number: int, turns: list[Turn]
) -> None:
    """Say sentences, each once the answer to the one before was heard.

    The first answer that does not come ends it.
    """
    await asyncio.sleep(args.pause * number / args.users)
    for count in range(args.turns):
        place = (args.first + number + count * args.users) % len(said)
        turn = user.say(said[place], place)
        turns.append(turn)
        await user.finish()
        try:
            await _answered(user)
        except TooSlow:
            return
        await asyncio.sleep(max(0.0, turn.answer.played - time.monotonic()) + args.pause)


async def _answered(user: User) -> None:
    """Wait for the end of an answer; one to a part of the sentence is cancelled by the rest.

    Raises:
        TooSlow: it does not come in time.
        LoadError: the stream has ended.
    """
    status = "cancelled"
    while status == "cancelled":
        await user.until("response.done")
        status = user.last["response.done"].get("response", {}).get("status", "")


def shares(turn: Turn) -> list[float]:
    """Return the parts of the time from the end of speech to the first audio, in seconds.

    They are empty on a wire without these events.
    """
    moments = [turn.at[kind] for kind in STEPS if kind in turn.at]
    if len(moments) < len(STEPS) or not turn.answer.first:
        return []
    return [end - begin for begin, end in pairwise([turn.ended, *moments, turn.answer.first])]


async def load(args: argparse.Namespace) -> dict[str, object]:
    wire: Wire = Realtime(INSTRUCTIONS, MOST_TOKENS) if args.wire == "realtime" else Bare()
    said = sentences(args.folder, wire)
    users = [
        await opened(args.url, lambda: User(wire, keep=args.events)) for _ in range(args.users)
    ]
    microphones = Microphones()
    turns: list[Turn] = []
    for number, user in enumerate(users):
        microphones.add(user, number / args.users)
    await microphones.run_with(
        *(converse(user, said, args, number, turns) for number, user in enumerate(users))
    )
    for user in users:
        await user.close()
    return {
        "wanted": args.users * args.turns,
        "turns": [
            {
                "sentence": turn.sentence,
                "first_audio": turn.answer.first - turn.ended if turn.answer.first else None,
                "heard": turn.answer.heard,
                "shares": shares(turn),
                "silence": turn.answer.silence,
                "late": turn.answer.late,
                "events": turn.events,
            }
            for turn in turns
        ],
        "lateness": microphones.spread(),
        "frames": len(microphones.lateness),
    }


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.voice_client", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wire", choices=["realtime", "bare"], default="realtime")
    parser.add_argument("--users", type=int, default=1, help="at the same time (1)")
    parser.add_argument("--turns", type=int, default=10, help="of each user (10)")
    parser.add_argument("--first", type=int, default=0, help="number of the first sentence (0)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds after an answer (1)")
    parser.add_argument("--events", action="store_true", help="print the events of each turn")
    print(json.dumps(uvloop.run(load(parser.parse_args()))))


if __name__ == "__main__":
    main()
