"""The reports: what they say, and what a hostile container cannot do to who reads them."""

from __future__ import annotations

import dataclasses
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from partway.gateway.terminal import console_for
from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.evidence import NotedExchange, Step
from partway.gateway.workbench.conformance.image import CHECKS
from partway.gateway.workbench.conformance.platform.checks import ALL as PLATFORM
from partway.gateway.workbench.conformance.report.html import MAX_DRAWN, to_html
from partway.gateway.workbench.conformance.report.json_report import to_json
from partway.gateway.workbench.conformance.report.junit import to_junit
from partway.gateway.workbench.conformance.report.matrix import (
    CLAUSES,
    UNCLAIMED,
    matrix,
    show_matrix,
)
from partway.gateway.workbench.conformance.report.terminal import progress, show
from partway.gateway.workbench.conformance.report.text import failure
from partway.gateway.workbench.conformance.report.timeline import FIRST, LAST
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.conftest import contract_ids
from tests.gateway.workbench.conformance.reporting import (
    HOSTILE,
    check,
    exchange,
    failed,
    hostile,
    one_of_each,
    passed,
    report,
)


def shown(made: Report, console: Console | None = None) -> str:
    file = io.StringIO()
    if console is None:
        console = console_for(file)
    else:
        console.file = file
    show(made, console)
    return file.getvalue()


# --- Terminal -------------------------------------------------------------------------------------


def test_a_log_is_plain():
    assert shown(one_of_each()) == (
        "the container, probe echo\n"
        "\n"
        "verdict  severity  check            clauses      requirement\n"
        "pass     must      startup.listens  1.1-1 1.1-2  it is so\n"
        "FAIL     must      ping.get         1.1-2        it is so\n"
        "         it is not so\n"
        "         remedy: make it so\n"
        "         the container printed:\n"
        "         | line 1\n"
        "         | line 2\n"
        "FAIL     should    ping.empty       1.1-2        it is so\n"
        "         it is not so\n"
        "         remedy: make it so\n"
        "note     note      http.note        1.1-2        it is so\n"
        "         it is not so\n"
        "         remedy: make it so\n"
        "skip     must      files.artifacts  1.1-6        it is so (needs --command)\n"
        "blocked  1 check (ping.get did not pass): ping.busy\n"
        "\n"
        "1 passed, 2 failed, 1 noted, 1 blocked, 1 skipped in 1.2 s: not conformant\n"
    )


def test_a_log_is_plain_whatever_the_environment_says(monkeypatch):
    plain = shown(one_of_each())
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "40", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    assert shown(one_of_each()) == plain


def test_long_lines_stay_in_their_column():
    said = "word " * 60
    long = dataclasses.replace(failed(said=said), check=check("ping.get", "1.1-2", title=said))
    lines = shown(report(long)).splitlines()
    assert max(map(len, lines)) <= 120
    title, *further = [line for line in lines[3:] if line.startswith(("FAIL", " " * 30))]
    column = title.index("word")
    assert further
    assert all(line.index("word") == column for line in further)
    below = [line for line in lines[3:] if re.match(r" {9}\S", line)]
    assert len(below) > 2


def test_on_a_narrow_terminal_titles_stand_below():
    text = shown(one_of_each(), Console(width=60, color_system=None))
    assert (
        "FAIL     must      ping.get         1.1-2\n         it is so\n         it is not so\n"
    ) in text


def test_a_terminal_has_colours():
    text = shown(one_of_each(), Console(force_terminal=True, color_system="standard", width=120))
    assert "\x1b[1;31mFAIL" in text
    assert "\x1b[32mpass" in text
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == shown(one_of_each())


def test_nothing_steers_the_terminal():
    text = shown(hostile())
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "<script>" in text
    assert "[red]" in text, "it is no markup of rich's"


def test_what_is_blocked_by_the_same_is_one_line():
    def blocked(id: str, by: str) -> Result:
        return Result(check(id, "1.1-2"), Verdict.BLOCKED, said=f"{by} did not pass")

    many = [blocked(f"messages.number_{n}", "startup.listens") for n in range(59)]
    made = report(failed("startup.listens"), *many, blocked("ping.busy", "ping.get"))
    one, two = [line for line in shown(made).splitlines() if line.startswith("blocked")]
    assert one.startswith(
        "blocked  59 checks (startup.listens did not pass): messages.number_0, messages.number_1, "
    )
    assert one.endswith("…")
    assert len(one) == 120
    assert two == "blocked  1 check (ping.get did not pass): ping.busy"
    for whole in (to_json(made), to_junit(made), to_html(made)):
        assert "messages.number_58" in whole


def test_of_its_output_the_last_lines_are_shown_and_once():
    output = "\n".join(f"line {n}" for n in range(40)) + "\n" + "x" * 500
    text = shown(report(failed("a.one", output=output), failed("a.two", output=output)))
    assert "| line 31\n" in text
    assert "line 30\n" not in text
    assert text.count("the container printed") == 1
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("results", "last"),
    [
        ([passed()], "1 passed in 1.2 s: conformant"),
        (
            [passed(), failed(severity=Severity.SHOULD)],
            "1 passed, 1 failed in 1.2 s: conformant, but some should checks failed",
        ),
        ([passed(), failed()], "1 passed, 1 failed in 1.2 s: not conformant"),
        (
            [passed(severity=Severity.SHOULD)],
            "1 passed in 1.2 s: not conformant: no must check was tried",
        ),
    ],
)
def test_the_last_line(results, last):
    assert shown(report(*results)).splitlines()[-1] == last


def test_progress_is_for_terminals_and_leaves_no_trace():
    file = io.StringIO()
    checks = [each.check for each in one_of_each().results]
    with progress(checks, console_for(file)) as on_result:
        on_result(passed())
    assert file.getvalue() == ""
    with progress(checks, Console(file=file, force_terminal=True, width=80)) as on_result:
        on_result(passed("messages.text"))
    drawn = file.getvalue()
    assert "1/6" in drawn
    assert "messages.text" in drawn
    assert drawn.endswith("\x1b[1A\x1b[2K"), "the line is taken away"


# --- JSON -----------------------------------------------------------------------------------------


def test_json_holds_the_evidence():
    found = json.loads(to_json(one_of_each()))
    assert {name: found[name] for name in found if name not in ("version", "results")} == {
        "subject": "the container",
        "probe": "echo",
        "seconds": 1.25,
        "conformant": False,
        "counts": {"pass": 1, "fail": 2, "blocked": 1, "skip": 1, "note": 1},
    }
    assert re.match(r"\d+\.\d+", found["version"])
    assert found["results"][1] == {
        "id": "ping.get",
        "clauses": ["1.1-2"],
        "severity": "must",
        "title": "it is so",
        "verdict": "fail",
        "seconds": 0.25,
        "said": "it is not so",
        "remedy": "make it so",
        "output": "line 1\nline 2\n",
        "exchanges": [
            {
                "title": "a stream",
                "left_out": 0,
                "steps": [
                    {
                        "at": 0.0015,
                        "side": "sent",
                        "what": "text FIN, 5 bytes",
                        "data": "68656c6c6f",
                        "size": 5,
                    }
                ],
            }
        ],
    }


def test_json_is_printable_and_keeps_what_was_said():
    text = to_json(hostile())
    assert text.isascii()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert json.loads(text)["results"][1]["said"] == HOSTILE


# --- JUnit ----------------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_check():
    root = ET.fromstring(to_junit(one_of_each()).encode())
    (suite,) = root
    for each in (root, suite):
        assert (each.get("name"), each.get("tests")) == ("partway conform", "6")
        assert (each.get("failures"), each.get("errors")) == ("1", "0")
        assert each.get("time") == "1.250"
    assert suite.get("skipped") == "4"
    cases = {
        case.get("name"): [(child.tag, child.get("message")) for child in case]
        for case in suite.iter("testcase")
    }
    assert cases == {
        "startup.listens": [],
        "ping.get": [("failure", "must: it is not so"), ("system-out", None)],
        "ping.empty": [("skipped", "should: it is not so")],
        "http.note": [("skipped", "note: it is not so")],
        "ping.busy": [("skipped", "blocked: ping.get did not pass")],
        "files.artifacts": [("skipped", "skip: needs --command")],
    }
    case = suite.findall("testcase")[1]
    assert case.attrib == {"classname": "partway.ping", "name": "ping.get", "time": "0.250"}
    assert case.findtext("failure") == "1.1-2: it is so\nit is not so\nremedy: make it so"
    assert case.findtext("system-out") == "line 1\nline 2"


def test_junit_is_what_jenkins_schema_knows():
    known = {
        "testsuites": {"name", "time", "tests", "failures", "errors"},
        "testsuite": {"name", "tests", "failures", "errors", "time", "skipped"},
        "properties": set(),
        "property": {"name", "value"},
        "testcase": {"name", "time", "classname"},
        "failure": {"type", "message"},
        "skipped": {"type", "message"},
        "system-out": set(),
    }
    for each in ET.fromstring(to_junit(one_of_each()).encode()).iter():
        assert set(each.attrib) <= known[each.tag]


def test_junit_of_what_is_no_character_of_xml():
    root = ET.fromstring(to_junit(hostile()).encode())
    said = root.find(".//failure").get("message")
    assert "<script>alert(1)</script>]]>&\"'" in said
    assert "\x1b" not in said


# --- HTML -----------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_html_is_one_page_that_needs_nothing():
    page = Page(to_html(one_of_each()))
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    values = [value or "" for _, attributes in page.tags for value in attributes.values()]
    assert not [value for value in values if "//" in value]
    assert not re.search(r"url\(|@import", to_html(one_of_each()))
    policy = [a["content"] for t, a in page.tags if a.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "prefers-color-scheme: dark" in page.words


def test_html_says_what_the_others_do():
    page = Page(to_html(one_of_each()))
    for words in (
        "not conformant",
        "1 passed, 2 failed, 1 noted, 1 blocked, 1 skipped in 1.2 s",
        "the container, probe echo",
        "(ping.get did not pass)",
        "Remedy: make it so",
        "line 1\nline 2",
    ):
        assert words in page.words
    targets = {a["id"] for t, a in page.tags if t == "section"}
    assert targets == {"ping.get", "ping.empty", "http.note"}
    assert {a["href"] for t, a in page.tags if t == "a"} == {f"#{id}" for id in targets}


def test_an_exchange_is_a_timeline():
    drawn = to_html(report(failed(exchanges=(exchange("a stream", 3, b"hello"),))))
    page = Page(drawn)
    assert [a["class"] for t, a in page.tags if t == "g"] == ["sent", "received", "meanwhile"]
    assert page.words.count("1.5 ms") == 3
    assert page.words.count("text FIN, 5 bytes  'hello'") == 6, "as a label, and in its tooltip"
    points = [a["points"] for t, a in page.tags if t == "polygon"]
    assert [point.split(",")[0] for point in points] == ["840", "90"], "there, and back"


@pytest.mark.parametrize(
    ("what", "data", "label"),
    [
        ("binary FIN, 2 bytes", b"\0\xff", "binary FIN, 2 bytes  00 ff"),
        ("text FIN, 40 bytes", b"0123456789abcdef" * 3, "text FIN, 40 bytes  '0123456789abcdef'…"),
        ("HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK"),
        ("end of the connection", b"", "end of the connection"),
    ],
)
def test_a_step_has_the_beginning_of_its_bytes(what, data, label):
    made = exchange(steps=0)
    made.steps.append(Step(0.1, "sent", what, data, len(data)))
    page = Page(to_html(report(failed(exchanges=(made,)))))
    assert f"100.0 ms\n{label}\n" in page.words


def test_of_many_steps_and_exchanges_some_are_drawn():
    many = exchange("a stream", 250)
    drawn = to_html(report(failed(exchanges=(many,) * (MAX_DRAWN + 3))))
    assert drawn.count("<svg") == MAX_DRAWN
    page = Page(drawn)
    assert page.words.count("… 160 more …") == MAX_DRAWN, "of those that were kept"
    assert page.words.count("… 50 more …") == MAX_DRAWN, "that were only counted"
    steps = [a for t, a in page.tags if t == "g"]
    assert len(steps) == MAX_DRAWN * (FIRST + LAST)
    assert "and 3 more, which are in the JSON report" in drawn


def test_what_has_failed_comes_first_and_the_worst_before_all():
    made = report(
        passed("a.passed"),
        failed("a.note", Severity.NOTE),
        failed("a.should", Severity.SHOULD),
        failed("a.must"),
        failed("a.second"),
    )
    page = Page(to_html(made))
    order = ["a.must", "a.second", "a.should", "a.note"]
    assert [a["id"] for t, a in page.tags if t == "section"] == order
    assert [a["href"] for t, a in page.tags if t == "a"] == [f"#{id}" for id in order]
    assert page.words.index("a.note") < page.words.index("a.passed")


def test_the_step_at_which_it_failed_is_marked_in_its_exchange():
    other, here = exchange("another", 1), exchange("a stream", 1, b"hello")
    here.clock = lambda: 20.5
    here.fail("nothing came for 10 s " * 6)
    made = report(failed(exchanges=(other, here)))
    page = Page(to_html(made))
    captions = re.findall("<figcaption>(.*?)</figcaption>", to_html(made))
    assert captions == ["a stream", "another"], "the one that failed is seen first"
    assert [a["class"] for t, a in page.tags if t == "g"] == ["sent", "failed", "sent"]
    assert "10.50 s\n✗ nothing came for 10 s" in page.words
    steps = json.loads(to_json(made))["results"][0]["exchanges"][1]["steps"]
    assert [step["side"] for step in steps] == ["sent", "failed"]


HEAD = b"HTTP/1.1 404 Not Found\r\nServer: \x1b[1m\r\nContent-Length: 4\r\n\r\nbody"


def test_the_headers_of_a_head_are_drawn():
    made = NotedExchange("a request", clock=lambda: 10.0)
    made.note("received", "the head of an answer, 404", HEAD, len(HEAD) - 4)
    page = Page(to_html(report(failed(exchanges=(made,)))))
    drawn = page.words.partition("0.0 ms\n")[2].split()
    assert " ".join(drawn) == "the head of an answer, 404 Server: \ufffd[1m Content-Length: 4"


def test_a_failure_as_text():
    made = exchange("a stream", 1, b"hello")
    made.clock = lambda: 10.0015
    made.note("received", "HTTP/1.1 404 Not Found", HEAD, len(HEAD) - 4)
    made.clock = lambda: 10.25
    made.fail("nothing came")
    result = failed(said="nothing came", output="line 1\n", exchanges=(exchange(), made))
    assert "\n".join(failure(result)) == (
        "nothing came\n"
        "\n"
        "must: it is so (1.1-2)\n"
        "remedy: make it so\n"
        "\n"
        "the container printed:\n"
        "| line 1\n"
        "\n"
        "a stream:\n"
        "      1.5 ms  --> text FIN, 5 bytes  'hello'\n"
        "      1.5 ms  <-- HTTP/1.1 404 Not Found\n"
        "                  | Server: \ufffd[1m\n"
        "                  | Content-Length: 4\n"
        "    250.0 ms   !  nothing came\n"
        "and 1 more connections"
    )


def test_of_a_failure_with_many_steps_its_beginning_and_its_end_are_told():
    made = exchange("a stream", 250)
    made.clock = lambda: 11.0
    made.fail("nothing came")
    lines = list(failure(failed(exchanges=(made,))))
    assert [line.strip() for line in lines if "..." in line] == ["... 180 more", "... 50 more"]
    assert lines[-1] == "   1000.0 ms   !  nothing came"
    assert len(lines) == 6 + 6 + 1 + 14 + 1 + 1


def test_nothing_in_a_failure_steers_the_terminal():
    (_, result, _) = hostile().results
    assert all(each.isprintable() for line in failure(result) for each in line)


def test_hostile_bytes_are_text_in_html():
    drawn = to_html(hostile())
    page = Page(drawn)
    assert page.open == []
    assert "script" not in {tag for tag, _ in page.tags}
    assert {name for _, attributes in page.tags for name in attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "role"),
        *("aria-label", "viewbox", "x", "y", "x1", "y1", "x2", "y2", "points", "text-anchor"),
        *("width", "height", "rx"),
    }
    assert "<script>alert(1)</script>" in page.words
    assert all(char.isprintable() or char == "\n" for char in drawn)


# --- Matrix ---------------------------------------------------------------------------------------


def test_the_matrix_has_every_clause_of_the_containers_side():
    wanted = [id for id in contract_ids() if id.startswith("1.") or id == "4-6"]
    assert list(CLAUSES) == wanted
    assert [row.clause for row in matrix([*CHECKS, *ALL, *PLATFORM])] == wanted


def test_the_matrix_has_no_empty_cell():
    rows = matrix([*CHECKS, *ALL, *PLATFORM])
    assert [row.clause for row in rows if not row.checks and not row.reason] == []
    assert [row.clause for row in rows if not row.about] == []


def test_who_claims_a_clause_needs_no_reason_for_leaving_it_out():
    claimed = {row.clause for row in matrix([*CHECKS, *ALL, *PLATFORM]) if row.checks}
    assert not claimed & set(UNCLAIMED), "take them out of UNCLAIMED"


def test_the_matrix_as_a_table():
    file = io.StringIO()
    rows = [row for row in matrix([check("a.b", "1.1-1")]) if row.clause in ("1.1-1", "1.1-7")]
    show_matrix(rows, console_for(file))
    assert file.getvalue() == (
        "clause  about                                   checks\n"
        "1.1-1   started with serve, stopped by SIGTERM  a.b\n"
        "1.1-7   source of the artifacts                 the platform's task: it fetches and "
        "unpacks artifacts before the start\n"
    )


def test_verdicts_have_words():
    assert {each.verdict for each in one_of_each().results} == set(Verdict)
