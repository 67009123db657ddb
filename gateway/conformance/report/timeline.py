"""An exchange as a picture: two lanes, an arrow for each step, its time beside it. Inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from gateway.conformance.evidence import Exchange, Step, shown
from gateway.conformance.report.text import cut, safe

#: Of the picture, in its own units: as many pixels where there is room for them.
_WIDTH: Final = 860
_CHECKER: Final = 90
_CONTAINER: Final = 840
_ROW: Final = 44
_HEAD: Final = 34

#: Characters that fit between the lanes; all of a label is in its tooltip.
_LABEL: Final = 100

#: Bytes that are shown of a step.
_BYTES: Final = 16


def timeline(exchange: Exchange) -> str:
    """Draw it; an SVG element."""
    rows = len(exchange.steps) + bool(exchange.left_out)
    height = _HEAD + rows * _ROW + 8
    about = f"{_escaped(exchange.title)}: {len(exchange.steps)} steps"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{about}">',
        *_lane(_CHECKER, "checker", height),
        *_lane(_CONTAINER, "container", height),
    ]
    for number, step in enumerate(exchange.steps):
        parts += _row(step, _HEAD + number * _ROW)
    if exchange.left_out:
        y = _HEAD + (rows - 1) * _ROW + 26
        parts.append(_text(_middle(), y, f"and {exchange.left_out} more", "middle"))
    parts.append("</svg>")
    return "\n".join(parts)


def _lane(x: int, name: str, height: int) -> Iterator[str]:
    anchor = "middle" if x < _WIDTH // 2 else "end"
    at = x if anchor == "middle" else _WIDTH - 4
    yield _text(at, 16, name, anchor, "lane")
    yield f'<line class="lane" x1="{x}" y1="24" x2="{x}" y2="{height}"/>'


def _row(step: Step, top: int) -> Iterator[str]:
    y = top + 28
    label = f"{step.what}  {_preview(step)}".rstrip()
    yield f'<g class="{step.side}"><title>{_escaped(label)}</title>'
    yield _text(4, y + 4, f"{step.at * 1000:.1f} ms", "start", "at")
    yield _text(_middle(), y - 6, cut(label, _LABEL), "middle")
    if step.side == "meanwhile":
        yield f'<line class="arrow" x1="{_CHECKER}" y1="{y}" x2="{_CONTAINER}" y2="{y}"/>'
    else:
        begin, end = (_CHECKER, _CONTAINER) if step.side == "sent" else (_CONTAINER, _CHECKER)
        back = -9 if step.side == "sent" else 9
        yield f'<line class="arrow" x1="{begin}" y1="{y}" x2="{end + back}" y2="{y}"/>'
        yield f'<polygon points="{end},{y} {end + back},{y - 4} {end + back},{y + 4}"/>'
    yield "</g>"


def _preview(step: Step) -> str:
    """The beginning of its bytes; nothing where the words are the bytes, as of HTTP's heads."""
    if not step.data or step.what.encode(errors="replace").startswith(step.data[:4]):
        return ""
    return shown(step.data[:_BYTES]) + ("…" if step.size > _BYTES else "")


def _middle() -> int:
    return (_CHECKER + _CONTAINER) // 2


def _text(x: int, y: int, text: str, anchor: str, kind: str = "what") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return escape(safe(text), quote=True)
