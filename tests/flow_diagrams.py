"""Lists as flow charts of Mermaid's, for the documentation, and their places on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def flow_chart(chains: Iterable[Sequence[str]]) -> str:
    """Draw chains of boxes from top to bottom, one chain beside the other.

    Args:
        chains: of each the texts of its boxes, in the order of the arrows.
    """
    lines = ["flowchart TB"]
    for number, texts in enumerate(chains, 1):
        boxes = {f"c{number}b{box}": text for box, text in enumerate(texts, 1)}
        lines += [f'    {box}["{text}"]' for box, text in boxes.items()]
        lines.append("    " + " --> ".join(boxes))
    return "\n".join([*lines, ""])


def shown_chart(page: str, source: str) -> str:
    """The one chart on a page that a comment says to be made from ``source``."""
    charts = re.findall(
        rf"^<!-- made from {re.escape(source)}; [^\n]* -->\n```mermaid\n(.*?)^```$",
        page,
        re.MULTILINE | re.DOTALL,
    )
    assert len(charts) == 1, f"{len(charts)} charts are made from {source}; there must be one"
    return charts[0]
