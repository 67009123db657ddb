"""The report as one HTML page that loads nothing: no network, no script, no font.

The page shows a container's output and bytes, which may be hostile. Everything is escaped, and the
page's own policy forbids scripts and loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from partway.gateway.plain_text import safe, safe_lines
from partway.gateway.workbench.conformance.report.text import failing_first, judgement, summary
from partway.gateway.workbench.conformance.report.timeline import timeline
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Severity, Verdict

#: Exchanges of one check that are drawn; a hundred streams look alike.
MAX_DRAWN: Final = 12

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0;
  --wash: #f6f8fa; --good: #1a7f37; --bad: #cf222e; --bad-wash: #ffebe9; --warn: #9a6700;
  --sent: #0969da; --received: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --wash: #151b23;
    --good: #3fb950; --bad: #f85149; --bad-wash: #3c1618; --warn: #d29922; --sent: #4493f8;
    --received: #ab7df8; } }
body { font: 15px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink);
  max-width: 64rem; margin: 2rem auto 4rem; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: .3rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; } p { margin: .4rem 0; } a { color: inherit; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { font-weight: 500; color: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--line); }
td.seconds, th.seconds { text-align: right; font-variant-numeric: tabular-nums; }
code, pre, svg text { font-family: ui-monospace, monospace; }
code { font-size: .92em; }
code, th:not(:last-child), td:not(:last-child) { white-space: nowrap; }
pre { border-left: 3px solid var(--line); padding-left: .8rem; white-space: pre-wrap;
  font-size: .85rem; max-height: 24rem; overflow-y: auto; }
section { border: 1px solid var(--line); border-left: 4px solid var(--warn); border-radius: 6px;
  padding: .9rem 1.1rem; margin: 1rem 0; }
section.must { border-left-color: var(--bad); }
section.note { border-left-color: var(--line); color: var(--ink); }
h3 .soft { font-weight: 400; } .said { font-weight: 600; }
.blocked, .note { color: var(--warn); } .pass, .conformant { color: var(--good); }
.fail, .not { color: var(--bad); } .fail.should { color: var(--warn); }
.skip, .soft { color: var(--soft); }
figure { margin: 1rem 0 0; padding: .6rem .8rem; overflow-x: auto; background: var(--wash);
  border-radius: 6px; }
figcaption { color: var(--soft); font-size: .85rem; }
svg { display: block; min-width: 40rem; width: 100%; font-size: 12px; }
svg text { fill: var(--ink); } svg text.at, svg text.lane, svg text.field { fill: var(--soft); }
svg text.field { font-size: 11px; }
svg line { stroke: var(--line); } svg line.lane { stroke-width: 2; }
.sent .arrow { stroke: var(--sent); } .sent polygon { fill: var(--sent); }
.received .arrow { stroke: var(--received); } .received polygon { fill: var(--received); }
.meanwhile .arrow { stroke-dasharray: 4 4; }
.failed rect { fill: var(--bad-wash); stroke: var(--bad); }
.failed text.what { fill: var(--bad); font-weight: 600; }
section:not(.must) .failed rect { fill: none; stroke: var(--warn); }
section:not(.must) .failed text.what { fill: var(--warn); }
@media (max-width: 48rem) { th.clauses, td.clauses, th.seconds, td.seconds { display: none; } }
"""


def to_html(report: Report) -> str:
    """Write the report as a page: failed checks with evidence, worst first, then the others."""
    word = "conformant" if report.conformant else "not"
    probe = f", probe <code>{_escaped(report.probe)}</code>" if report.probe else ""
    wrong = [each for each in report.results if each.verdict in (Verdict.FAIL, Verdict.NOTE)]
    worst = list(Severity)
    wrong.sort(key=lambda each: worst.index(each.check.severity))
    rest = [each for each in report.results if each.verdict not in (Verdict.FAIL, Verdict.NOTE)]
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
        f'<p class="soft">{_escaped(summary(report))}</p>',
    ]
    if wrong:
        lines += _table("Findings", wrong)
        for result in wrong:
            lines += _section(result)
    if rest:
        lines += _table("Other checks" if wrong else "Checks", rest)
    lines += ["</body>", "</html>", ""]
    return "\n".join(lines)


def _table(title: str, results: Iterable[Result]) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    yield "<table>"
    yield (
        '<tr><th>verdict</th><th>severity</th><th>check</th><th class="clauses">clauses</th>'
        '<th class="seconds">seconds</th><th>requirement</th></tr>'
    )
    for result in results:
        check = result.check
        name = f"<code>{_escaped(check.id)}</code>"
        if result.verdict in (Verdict.FAIL, Verdict.NOTE):
            name = f'<a href="#{_escaped(check.id)}">{name}</a>'
        why = ""
        if result.verdict in (Verdict.BLOCKED, Verdict.SKIP):
            why = f' <span class="soft">({_escaped(result.said)})</span>'
        kind = f"{result.verdict.value} {check.severity.value}"
        yield (
            f'<tr><td class="{kind}">{result.verdict.value}</td>'
            f"<td>{check.severity.value}</td><td>{name}</td>"
            f'<td class="clauses">{_escaped(" ".join(check.clauses))}</td>'
            f'<td class="seconds">{result.seconds:.2f}</td>'
            f"<td>{_escaped(check.title)}{why}</td></tr>"
        )
    yield "</table>"


def _section(result: Result) -> Iterator[str]:
    check = result.check
    name, severity = _escaped(check.id), check.severity.value
    about = f"{severity}, clause {' '.join(check.clauses)}"
    yield f'<section class="{severity}" id="{name}">'
    yield f'<h3><code>{name}</code> <span class="soft">{_escaped(about)}</span></h3>'
    yield f"<p>{_escaped(check.title)}</p>"
    yield f'<p class="said {result.verdict.value} {severity}">{_escaped(result.said)}</p>'
    yield f"<p>Remedy: {_escaped(result.remedy)}</p>"
    if result.output:
        yield '<p class="soft">The container printed:</p>'
        yield f"<pre>{escape(chr(10).join(safe_lines(result.output)))}</pre>"
    for exchange in failing_first(result.exchanges)[:MAX_DRAWN]:
        yield f"<figure><figcaption>{_escaped(exchange.title)}</figcaption>"
        yield timeline(exchange)
        yield "</figure>"
    if (more := len(result.exchanges) - MAX_DRAWN) > 0:
        yield f'<p class="soft">and {more} more, which are in the JSON report</p>'
    yield "</section>"


def _escaped(text: str) -> str:
    return escape(safe(text), quote=True)
