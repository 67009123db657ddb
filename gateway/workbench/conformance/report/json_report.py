"""The report as one JSON object."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Verdict


def to_json(report: Report) -> str:
    """Write the whole report with its evidence; bytes are hexadecimal, times are seconds.

    Characters beyond ASCII and terminal controls are escaped.
    """
    whole = {
        "version": importlib.metadata.version("partway"),
        "subject": report.subject,
        "probe": report.probe,
        "seconds": round(report.seconds, 3),
        "conformant": report.conformant,
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "results": [_result(each) for each in report.results],
    }
    return json.dumps(whole, indent=2) + "\n"


def _result(result: Result) -> dict[str, Any]:
    check = result.check
    return {
        "id": check.id,
        "clauses": list(check.clauses),
        "severity": check.severity.value,
        "title": check.title,
        "verdict": result.verdict.value,
        "seconds": round(result.seconds, 6),
        "said": result.said,
        "remedy": result.remedy,
        "output": result.output,
        "exchanges": [_exchange(each) for each in result.exchanges],
    }


def _exchange(exchange: NotedExchange) -> dict[str, Any]:
    return {
        "title": exchange.title,
        "left_out": exchange.left_out,
        "steps": [
            {
                "at": round(step.at, 6),
                "side": step.side,
                "what": step.what,
                "data": step.data.hex(),
                "size": step.size,
            }
            for step in exchange.steps
        ],
    }
