"""Parse a Realtime server's events with a client's own models; run with the client's interpreter.

Usage: event_parser.py pipecat|openai FILE

FILE has one event on each line. The last printed line is a JSON object: the number of parsed
events by type, and the faults of the others.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path


def pipecat_parser() -> Callable[[str], str]:
    from pipecat.services.openai.realtime.events import parse_server_event

    def parse(line: str) -> str:
        event = parse_server_event(line)
        if event is None:
            raise ValueError("pipecat knows no such event")
        return str(event.type)

    return parse


def openai_parser() -> Callable[[str], str]:
    from openai.types.realtime import RealtimeServerEvent
    from pydantic import TypeAdapter

    adapter = TypeAdapter(RealtimeServerEvent)
    return lambda line: str(adapter.validate_json(line).type)


PARSERS = {"pipecat": pipecat_parser, "openai": openai_parser}


def main() -> None:
    parse = PARSERS[sys.argv[1]]()
    parsed: Counter[str] = Counter()
    faults = []
    for line in Path(sys.argv[2]).read_text("utf-8").splitlines():
        try:
            parsed[parse(line)] += 1
        except Exception as error:
            faults.append(f"{line[:300]}: {error}"[:1500])
    print(json.dumps({"parsed": parsed, "faults": faults}))


main()
