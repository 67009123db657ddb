"""The report as one HTML page that needs nothing else: no network, no script, no font.

A container's words and bytes are in it, and are hostile for all we know: everything is escaped,
and the page's own policy forbids whatever might slip through to run or to load.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from gateway.conformance.check import Verdict
from gateway.conformance.report.text import judgement, safe, safe_lines, summary
from gateway.conformance.report.timeline import timeline
from gateway.conformance.run import Report, Result

#: Exchanges that are drawn of one check; a hundred streams look alike.
MAX_DRAWN: Final = 12

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0;
  --good: #1a7f37; --bad: #cf222e; --warn: #9a6700; --sent: #0969da; --received: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d;
    --good: #3fb950; --bad: #f85149; --warn: #d29922; --sent: #4493f8; --received: #ab7df8; } }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); }
code, pre, svg text { font-family: ui-monospace, monospace; }
code, th:not(:last-child), td:not(:last-child) { white-space: nowrap; }
pre { border-left: 3px solid var(--line); padding-left: .8rem; white-space: pre-wrap; }
.pass, .conformant { color: var(--good); } .fail, .not { color: var(--bad); font-weight: 600; }
.blocked, .note { color: var(--warn); } .skip, .soft { color: var(--soft); }
figure { margin: 1rem 0; overflow-x: auto; } figcaption { color: var(--soft); }
svg { min-width: 40rem; width: 100%; font-size: 12px; }
svg text { fill: var(--ink); } svg .at, svg text.lane { fill: var(--soft); }
svg line { stroke: var(--line); } svg line.lane { stroke-width: 2; }
.sent .arrow { stroke: var(--sent); } .sent polygon { fill: var(--sent); }
.received .arrow { stroke: var(--received); } .received polygon { fill: var(--received); }
.meanwhile .arrow { stroke-dasharray: 4 4; }
"""


def to_html(report: Report) -> str:
    """The whole page."""
    word = "conformant" if report.conformant else "not"
    probe = f", probe <code>{_escaped(report.probe)}</code>" if report.probe else ""
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>partway conform: {_escaped(judgement(report))}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        f'<h1>Conformance: <span class="{word}">{_escaped(judgement(report))}</span></h1>',
        f"<p>{_escaped(report.subject)}{probe}</p>",
        f"<p>{_escaped(summary(report))}</p>",
        *_table(report),
    ]
    for result in report.results:
        if result.verdict in (Verdict.FAIL, Verdict.NOTE):
            lines += _section(result)
    lines += ["</body>", "</html>", ""]
    return "\n".join(lines)


def _table(report: Report) -> Iterator[str]:
    yield "<table>"
    heads = ("verdict", "severity", "check", "clauses", "seconds", "what must be so")
    yield f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"
    for result in report.results:
        check = result.check
        name = f"<code>{_escaped(check.id)}</code>"
        if result.verdict in (Verdict.FAIL, Verdict.NOTE):
            name = f'<a href="#{_escaped(check.id)}">{name}</a>'
        why = ""
        if result.verdict in (Verdict.BLOCKED, Verdict.SKIP):
            why = f' <span class="soft">({_escaped(result.said)})</span>'
        cells = (
            f'<span class="{result.verdict.value}">{result.verdict.value}</span>',
            check.severity.value,
            name,
            _escaped(" ".join(check.clauses)),
            f"{result.seconds:.2f}",
            _escaped(check.title) + why,
        )
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _section(result: Result) -> Iterator[str]:
    check = result.check
    name = _escaped(check.id)
    yield f'<h2 id="{name}"><code>{name}</code> {_escaped(check.title)}</h2>'
    yield f'<p class="{result.verdict.value}">{_escaped(result.said)}</p>'
    yield f"<p>Remedy: {_escaped(result.remedy)}</p>"
    if result.output:
        yield '<p class="soft">The container printed:</p>'
        yield f"<pre>{escape(chr(10).join(safe_lines(result.output)))}</pre>"
    for exchange in result.exchanges[:MAX_DRAWN]:
        yield f"<figure><figcaption>{_escaped(exchange.title)}</figcaption>"
        yield timeline(exchange)
        yield "</figure>"
    if (more := len(result.exchanges) - MAX_DRAWN) > 0:
        yield f'<p class="soft">and {more} more, which are in the JSON report</p>'


def _escaped(text: str) -> str:
    return escape(safe(text), quote=True)
