"""The matrix of clauses and checks of both sides, with a reason for each unchecked clause."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from partway.gateway.terminal import print_line
from partway.gateway.workbench.conformance.check import Check

#: The subject of each clause between platform and container.
CLAUSES: Final[Mapping[str, str]] = {
    "1.1-1": "started with serve, stopped by SIGTERM",
    "1.1-2": "port, /ping, /invocations, connections, unknown headers",
    "1.1-3": "ready within 8 minutes",
    "1.1-4": "WebSocket, label, Pongs",
    "1.1-5": "chunked responses",
    "1.1-6": "read-only artifacts",
    "1.1-7": "source of the artifacts",
    "1.1-8": "text is UTF-8",
    "1.2-1": "a part is a frame",
    "1.2-2": "text and binary",
    "1.2-3": "fragments and FIN",
    "1.2-4": "empty parts are kept",
    "1.2-5": "code points split between parts",
    "1.2-6": "no compression",
    "1.2-7": "input that ends inside a message",
    "1.3-1": "a frame is a part",
    "1.3-2": "control frames between fragments",
    "1.3-3": "the largest frame",
    "1.4-1": "pings every 60 s",
    "1.4-2": "liveness under back-pressure",
    "1.4-3": "pongs, in order",
    "1.4-4": "pings to clients",
    "1.4-5": "30 minutes at most",
    "1.5-1": "Close with code and reason",
    "1.5-2": "Close without a code",
    "1.5-3": "an end without a Close",
    "1.5-4": "frames that break RFC 6455",
    "1.5-5": "a Close reason that is not UTF-8",
    "1.5-6": "a frame that is too big",
    "1.5-7": "Close in the middle of a message",
    "1.5-8": "liveness lost",
    "1.5-9": "lifetime, drain, cancel, a cut",
    "1.5-10": "the client's fault",
    "1.5-11": "the end of the client's input",
    "1.5-12": "the container's Close at the end of the input",
    "1.5-13": "a Close that cannot be written",
    "1.6-1": "path, query, request id",
    "1.7-1": "a chat completion with an empty model",
    "1.7-2": "a chat completion in events",
    "1.7-3": "members that the container does not know",
    "1.7-4": "refused requests, and clients that leave",
    "1.7-5": "paths that AWS routes",
    "4-6": "an upgrade that is not granted",
}

#: Clauses between platform and container that no check claims, and why.
UNCLAIMED: Final[Mapping[str, str]] = {
    "1.1-7": "the platform's task: it fetches and unpacks artifacts before the start",
    "1.4-2": "the platform's task: no container sees when its liveness clock stands still",
    "1.4-4": "the platform's task: it pings clients, not containers",
    "1.4-5": "the platform's task: it ends streams after half an hour",
    "1.5-13": "the platform's task, which nobody sees: it cuts a connection that takes no Close",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One clause.

    Attributes:
        clause: the clause's id.
        about: the clause's subject, in a few words.
        checks: ids of the checks that claim the clause, in the order of trying.
        reason: why no check claims the clause; empty where one does.
    """

    clause: str
    about: str
    checks: tuple[str, ...]
    reason: str = ""


def matrix(checks: Iterable[Check]) -> list[Row]:
    """Make a row for each clause between platform and container, in the contract's order."""
    claimed: dict[str, list[str]] = {clause: [] for clause in CLAUSES}
    for check in checks:
        for clause in check.clauses:
            claimed.setdefault(clause, []).append(check.id)
    return [
        Row(
            clause,
            CLAUSES.get(clause, ""),
            tuple(ids),
            "" if ids else UNCLAIMED.get(clause, ""),
        )
        for clause, ids in claimed.items()
    ]


def show_matrix(rows: Sequence[Row], console: Console) -> None:
    about = max(len(row.about) for row in rows)
    indent = " " * (8 + about + 2)
    room = max(console.width - len(indent), 40)
    print_line(console, Text(f"{'clause':8}{'about':{about}}  checks", "dim"))
    for row in rows:
        first, *further = textwrap.wrap(" ".join(row.checks) or row.reason, room) or [""]
        style = "" if row.checks else "dim"
        head = f"{row.clause:8}{row.about:{about}}  "
        print_line(console, Text.assemble(head, (first, style)))
        for line in further:
            print_line(console, Text(indent + line, style))
