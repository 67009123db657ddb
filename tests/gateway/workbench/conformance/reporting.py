"""A report of every verdict, from a container that wishes its readers ill."""

from __future__ import annotations

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Severity, Verdict

#: What steers a terminal, is markup, ends CDATA, turns lines around, or is no character of XML.
HOSTILE = "\x1b]0;mine\x07\x9b31m<script>alert(1)</script>]]>&\"'[red]\u202e\ufffe\0\ud800"


async def nothing(trial: Trial) -> None:
    pass


def check(id: str, *clauses: str, severity: Severity = Severity.MUST, title: str = "it is so"):
    return Check(id, clauses, severity, title, "make it so", nothing)


def exchange(title: str = "a stream", steps: int = 1, data: bytes = b"") -> NotedExchange:
    """At one and the same time each: 1.5 ms after its beginning."""
    ticks = iter([10.0, *([10.0015] * steps)])
    made = NotedExchange(title, clock=lambda: next(ticks))
    for number in range(steps):
        side = ("sent", "received", "meanwhile")[number % 3]
        made.note(side, f"text FIN, {len(data)} bytes", data)
    return made


def report(*results: Result, seconds: float = 1.25, subject: str = "the container") -> Report:
    return Report(list(results), seconds, subject, "echo")


def failed(
    id: str = "ping.get",
    severity: Severity = Severity.MUST,
    said: str = "it is not so",
    output: str = "",
    exchanges: tuple[NotedExchange, ...] = (),
) -> Result:
    made = check(id, "1.1-2", severity=severity)
    verdict = Verdict.NOTE if severity is Severity.NOTE else Verdict.FAIL
    return Result(made, verdict, 0.25, said, "make it so", exchanges, output)


def passed(id: str = "ping.post", *clauses: str, severity: Severity = Severity.MUST) -> Result:
    return Result(check(id, *(clauses or ("1.1-2",)), severity=severity), Verdict.PASS, 0.5)


def one_of_each() -> Report:
    return report(
        passed("startup.listens", "1.1-1", "1.1-2"),
        failed("ping.get", output="line 1\nline 2\n", exchanges=(exchange(data=b"hello"),)),
        failed("ping.empty", Severity.SHOULD),
        failed("http.note", Severity.NOTE),
        Result(check("ping.busy", "1.1-2"), Verdict.BLOCKED, said="ping.get did not pass"),
        Result(check("files.artifacts", "1.1-6"), Verdict.SKIP, said="needs --command"),
    )


def hostile() -> Report:
    return report(
        passed(),
        failed(
            said=HOSTILE,
            output=f"{HOSTILE}\n{HOSTILE}\r\n",
            exchanges=(exchange(HOSTILE, 3, HOSTILE.encode(errors="replace")),),
        ),
        Result(check("ping.busy", "1.1-2"), Verdict.BLOCKED, said=HOSTILE),
        subject=HOSTILE,
    )
