"""Parse a server's events with a client's own models; run with the client's interpreter.

Usage: event_parser.py pipecat|openai|flux-listen|flux-speak FILE

FILE has one event on each line. The last printed line is a JSON object: the number of parsed
events by type, and the faults of the others.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args


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


#: Members that Deepgram's models do not have: pipecat's name of the code of a failure, and the
#: stream's id in an error.
FURTHER = {"error_code", "request_id"}


def deepgram_parser(service: str) -> Callable[[str], str]:
    """Validate with the models of ``v2``, which deepgram-sdk itself does not do.

    Args:
        service: ``listen`` or ``speak``.
    """
    from importlib import import_module

    client = import_module(f"deepgram.{service}.v2.socket_client")
    models = {
        model.model_fields["type"].default: model
        for model in get_args(client.V2SocketClientResponse)
        if model is not bytes
    }

    def parse(line: str) -> str:
        event = json.loads(line)
        parsed = models[event["type"]].model_validate(event)
        if further := set(parsed.model_extra or ()) - FURTHER:
            raise ValueError(f"the client has no members {further}")
        return str(event.get("event", parsed.type))

    return parse


PARSERS = {
    "pipecat": pipecat_parser,
    "openai": openai_parser,
    "flux-listen": lambda: deepgram_parser("listen"),
    "flux-speak": lambda: deepgram_parser("speak"),
}


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
