"""The load of interruptions: users who cut answers at random moments.

``python -m benchmarks.voice_interrupter URL FOLDER`` is a process of its own. A user speaks into an
answer, cancels it, closes the stream, or leaves without a Close. Meanwhile listeners hear long
answers, which nobody cuts. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.voice_users import Answer, Microphones, Sentence, User, opened, sentences
from benchmarks.voice_wires import Realtime, Samples, event

#: The ways to cut, and their shares.
WAYS = {"speech": 6, "cancel": 2, "close": 1, "abort": 1}
#: Seconds from the end of a sentence to the cut, at most; an answer begins after half a second.
_LATEST = 3.0
#: Number of the first turn of a listener who is not cut.
_LISTENERS = 1_000_000


@dataclass
class Cuts:
    """The results of a load; times in seconds.

    Attributes:
        told: from the begin of speech until the client knew, for each answer that was cut so.
        after: parts of audio of a cut answer that came after the client knew.
        cut: the turns whose answers were cut, and when the client knew.
        heard: the seconds that a client had heard of a cut answer, and the numbers of its turn and
            of the next one.
        ways: the number of cuts of each way.
        silence: the longest silence that a listener heard within an answer.
        late: the longest delay of a listener's part.
    """

    told: list[float] = field(default_factory=list)
    after: int = 0
    cut: dict[int, float] = field(default_factory=dict)
    heard: list[tuple[float, int, int]] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    silence: float = 0.0
    late: float = 0.0

    def add_listener(self, answer: Answer) -> None:
        self.silence = max(self.silence, answer.silence)
        self.late = max(self.late, answer.late)


class Interrupter(User):
    """A user who knows which answer is under way.

    Attributes:
        number: of the turn, as the instructions say it.
        response: the id of the answer under way; empty if there is none.
        answered: the number of its turn.
        answer: its sound.
    """

    #: The answer may end just before it is cancelled.
    tolerated = frozenset({"response_cancel_not_active"})

    def __init__(self, cuts: Cuts) -> None:
        super().__init__(Realtime(), keep=False)
        self.number = self.answered = 0
        self.response = ""
        self.answer = Answer()
        self._cuts = cuts
        self._over: set[str] = set()

    def on_event(self, kind: str, members: dict[str, Any], samples: Samples, now: float) -> None:
        if kind == "response.created":
            self.response, self.answered = members["response"]["id"], self.number
            self.answer = Answer()
        elif kind == "response.done" and members["response"]["id"] == self.response:
            self._over.add(self.response)
            self.response = ""
        elif kind == "input_audio_buffer.speech_started":
            self._interrupted(now)
        elif len(samples):
            self._cuts.after += members["response_id"] in self._over
            self.answer.add(now, samples, self.wire.rate)

    def _interrupted(self, now: float) -> None:
        if not self.response:
            return
        self._over.add(self.response)
        self._cuts.cut[self.answered] = now
        if self.turn is not None and self.turn.began:
            self._cuts.told.append(now - self.turn.began)
        if self.answer.first and self.number != self.answered:
            heard = (self.answer.heard_at(now), self.answered, self.number)
            self._cuts.heard.append(heard)

    async def ask(self, sentence: Sentence, number: int) -> None:
        """Say a sentence as the turn of this number; return when it is said."""
        instructions = event("session.update", session={"instructions": f"#{number} is the turn."})
        self.send(instructions)
        await self.until("session.updated")
        self.number = number
        self.say(sentence, 0)
        await self.finish()


class Interrupters:
    """Users who cut, and listeners who do not."""

    def __init__(self, args: argparse.Namespace, numbers: Iterator[int]) -> None:
        self.cuts = Cuts()
        self.microphones = Microphones()
        self._args = args
        self._numbers = numbers
        self._said = sentences(args.folder, Realtime())

    async def _user(self, phase: float) -> Interrupter:
        user = await opened(self._args.url, lambda: Interrupter(self.cuts))
        self.microphones.add(user, phase)
        return user

    async def interrupt(self, place: int) -> None:
        """Cut answers at random moments."""
        chance = random.Random(place)
        user: Interrupter | None = None
        for _ in range(self._args.cuts):
            if user is None:
                user = await self._user(chance.random())
            number = next(self._numbers)
            await user.ask(chance.choice(self._said), number)
            await asyncio.sleep(chance.uniform(0, _LATEST))
            way = chance.choices(list(WAYS), list(WAYS.values()))[0]
            self.cuts.ways[way] += 1
            if way == "cancel" and user.response:
                user.send(event("response.cancel"))
                await user.until("response.done")
                self.cuts.cut[user.answered] = time.monotonic()
            elif way in ("close", "abort"):
                self.cuts.cut[number] = time.monotonic()
                if way == "close":
                    await user.close()
                else:
                    user.abort()
                user = None
        if user is not None:
            await user.close()

    async def listen(self, place: int) -> None:
        """Hear answers to their ends, until cancelled."""
        user = await self._user(0.5)
        try:
            for number in itertools.count(_LISTENERS * (place + 1)):
                await user.ask(self._said[0], number)
                await user.until("response.done", patience=self._args.patience)
                self.cuts.add_listener(user.answer)
        finally:
            self.cuts.add_listener(user.answer)
            user.abort()

    async def cut_all(self) -> None:
        """Let all users cut their answers; then the listeners leave."""
        async with asyncio.TaskGroup() as listening:
            listeners = [
                listening.create_task(self.listen(place)) for place in range(self._args.listeners)
            ]
            await asyncio.gather(*(self.interrupt(place) for place in range(self._args.users)))
            for listener in listeners:
                listener.cancel()


async def load(args: argparse.Namespace) -> dict[str, object]:
    all_users = Interrupters(args, itertools.count(args.first))
    await all_users.microphones.run_with(all_users.cut_all())
    return {**asdict(all_users.cuts), "lateness": all_users.microphones.spread()}


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.voice_interrupter", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=20, help="who cut (20)")
    parser.add_argument("--cuts", type=int, default=50, help="of each user (50)")
    parser.add_argument("--listeners", type=int, default=2, help="who do not cut (2)")
    parser.add_argument("--first", type=int, default=1, help="number of the first turn (1)")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds for a long answer")
    print(json.dumps(uvloop.run(load(parser.parse_args()))))


if __name__ == "__main__":
    main()
