"""An exchange as inline SVG: two lanes, an arrow for each step, and its time."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from typing import Final

from partway.gateway.plain_text import cut, safe
from partway.gateway.workbench.conformance.evidence import NotedExchange, Step
from partway.gateway.workbench.conformance.report.text import fields_of, preview, telling

#: Sizes of the picture, in its own units: as many pixels where there is room for them.
_WIDTH: Final = 860
_CHECKER: Final = 90
_CONTAINER: Final = 840
_ROW: Final = 44
_LINE: Final = 16
_TOP: Final = 34

#: Characters that fit between the lanes; the tooltip has the whole label.
_LABEL: Final = 100
_FAILED_LINES: Final = 4

#: Bytes that are shown of a step.
_BYTES: Final = 16

#: Steps of one exchange that are drawn: from its beginning, and from its end.
FIRST: Final = 12
LAST: Final = 28


def timeline(exchange: NotedExchange) -> str:
    rows: list[str] = []
    y = _TOP
    for step in telling(exchange, FIRST, LAST):
        if isinstance(step, int):
            rows.append(_text(_middle(), y + 22, f"… {step} more …", "middle", "at"))
            y += _ROW
        elif step.side == "failed":
            height, drawn = _failed(step, y)
            rows += drawn
            y += height
        else:
            rows += _step(step, y)
            y += _ROW
            for field in fields_of(step):
                rows.append(_text(_CHECKER + 24, y, cut(field, _LABEL), "start", "field"))
                y += _LINE
    height = y + 8
    about = f"{_escaped(exchange.title)}: {len(exchange.steps)} steps"
    return "\n".join(
        (
            f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{about}">',
            *_lane(_CHECKER, "checker", height),
            *_lane(_CONTAINER, "container", height),
            *rows,
            "</svg>",
        )
    )


def _lane(x: int, name: str, height: int) -> Iterator[str]:
    anchor = "middle" if x < _WIDTH // 2 else "end"
    at = x if anchor == "middle" else _WIDTH - 4
    yield _text(at, 16, name, anchor, "lane")
    yield f'<line class="lane" x1="{x}" y1="24" x2="{x}" y2="{height}"/>'


def _step(step: Step, top: int) -> Iterator[str]:
    y = top + 28
    label = f"{step.what}  {preview(step, _BYTES)}".rstrip()
    yield f'<g class="{step.side}"><title>{_escaped(label)}</title>'
    yield _time(step, y)
    yield _text(_middle(), y - 6, cut(label, _LABEL), "middle")
    if step.side == "meanwhile":
        yield f'<line class="arrow" x1="{_CHECKER}" y1="{y}" x2="{_CONTAINER}" y2="{y}"/>'
    else:
        begin, end = (_CHECKER, _CONTAINER) if step.side == "sent" else (_CONTAINER, _CHECKER)
        back = -9 if step.side == "sent" else 9
        yield f'<line class="arrow" x1="{begin}" y1="{y}" x2="{end + back}" y2="{y}"/>'
        yield f'<polygon points="{end},{y} {end + back},{y - 4} {end + back},{y + 4}"/>'
    yield "</g>"


def _failed(step: Step, top: int) -> tuple[int, list[str]]:
    """Draw a failed step as a bar across both lanes; return its height and elements."""
    lines = textwrap.wrap(safe(step.what), _LABEL - 4) or [""]
    if len(lines) > _FAILED_LINES:
        lines[_FAILED_LINES - 1 :] = [f"{lines[_FAILED_LINES - 1]}…"]
    height = len(lines) * _LINE + 14
    y = top + 8
    drawn = [
        f'<g class="failed"><title>{_escaped(step.what)}</title>',
        f'<rect x="{_CHECKER}" y="{y}" width="{_CONTAINER - _CHECKER}" height="{height}" rx="4"/>',
        _time(step, y + 15),
    ]
    for number, line in enumerate(lines):
        mark = "✗ " if not number else ""
        drawn.append(_text(_middle(), y + 19 + number * _LINE, mark + line, "middle"))
    return height + 16, [*drawn, "</g>"]


def _time(step: Step, y: int) -> str:
    at = f"{step.at:.2f} s" if step.at >= 1 else f"{step.at * 1000:.1f} ms"
    return _text(4, y + 4, at, "start", "at")


def _middle() -> int:
    return (_CHECKER + _CONTAINER) // 2


def _text(x: int, y: int, text: str, anchor: str, kind: str = "what") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return escape(safe(text), quote=True)
