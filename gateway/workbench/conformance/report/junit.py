"""The report as JUnit XML, as CI servers read it.

Elements and attributes are those of Jenkins' schema (junit-10.xsd), which GitHub's and GitLab's
readers take as well. A *must* that is not kept makes the command fail, and is a failure here. Any
other check without a pass is *skipped*, with its verdict and the reason.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from partway.gateway.plain_text import safe, safe_lines
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Severity, Verdict

_NAME = "partway conform"


def to_junit(report: Report) -> str:
    failures = report.count(Verdict.FAIL, Severity.MUST)
    passed = report.count(Verdict.PASS)
    about = {
        "name": _NAME,
        "tests": str(len(report.results)),
        "failures": str(failures),
        "errors": "0",
        "time": f"{report.seconds:.3f}",
    }
    suites = ET.Element("testsuites", about)
    skipped = str(len(report.results) - passed - failures)
    suite = ET.SubElement(suites, "testsuite", about | {"skipped": skipped})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("subject", report.subject), ("probe", report.probe)):
        ET.SubElement(properties, "property", name=name, value=safe(value))
    for result in report.results:
        _add(suite, result)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def _add(suite: ET.Element, result: Result) -> None:
    check = result.check
    area, _, _ = check.id.partition(".")
    case = ET.SubElement(
        suite, "testcase", classname=f"partway.{area}", name=check.id, time=f"{result.seconds:.3f}"
    )
    if result.verdict is Verdict.PASS:
        return
    failed = result.verdict is Verdict.FAIL
    kind = check.severity.value if failed else result.verdict.value
    about = "failure" if failed and check.severity is Severity.MUST else "skipped"
    found = ET.SubElement(case, about, type=kind, message=safe(f"{kind}: {result.said}"))
    lines = [f"{' '.join(check.clauses)}: {check.title}", result.said]
    if result.remedy:
        lines.append(f"remedy: {result.remedy}")
    found.text = "\n".join(safe(line) for line in lines)
    if result.output:
        ET.SubElement(case, "system-out").text = "\n".join(safe_lines(result.output))
