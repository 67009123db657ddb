"""Recordings as tests write them: line by line, in JSON that they spell out themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEAD = {
    "recording": 1,
    "endpoint": "echo",
    "target": "/invocations-bidirectional-stream",
    "started": "2026-01-02T03:04:05.000006+00:00",
    "payloads": True,
    "headers": {},
}
GRANTED = {"at": 0.0, "answer": 101, "headers": {}}
OVER = {"at": 1000.0, "complete": True, "why": ""}


def data(at: float, sender: str, payload: str | bytes, **members: Any) -> dict[str, Any]:
    """A message in one frame; ``frame`` and ``fin`` make it another."""
    kind = "text" if isinstance(payload, str) else "binary"
    said = {"text": payload} if isinstance(payload, str) else {"base64": payload.decode()}
    return {"at": at, "from": sender, "frame": kind, "fin": True, **said, **members}


def said(at: float, payload: str | bytes, **members: Any) -> dict[str, Any]:
    return data(at, "gateway", payload, **members)


def came(at: float, payload: str | bytes, **members: Any) -> dict[str, Any]:
    return data(at, "container", payload, **members)


def closed(at: float, sender: str, code: int | None = 1000, reason: str = "") -> dict[str, Any]:
    return {
        "at": at, "from": sender, "frame": "close", "fin": True, "code": code, "reason": reason,
    }  # fmt: skip


def ended(at: float, sender: str) -> dict[str, Any]:
    return {"at": at, "ended": sender, "error": ""}


def both_close(at: float, code: int = 1000) -> list[dict[str, Any]]:
    """The client ends the stream."""
    return [closed(at, "gateway", code), closed(at, "container", code), ended(at, "container")]


def written(path: Path, *lines: dict[str, Any] | str, head: dict[str, Any] = HEAD) -> Path:
    """A recording's file: its head, and the lines as they are."""
    all_lines = [line if isinstance(line, str) else json.dumps(line) for line in (head, *lines)]
    path.write_text("".join(f"{line}\n" for line in all_lines), "utf-8")
    return path


def whole(path: Path, *lines: dict[str, Any]) -> Path:
    """A recording of a stream that was granted, and whose recorder saw its end."""
    return written(path, GRANTED, *lines, OVER)
