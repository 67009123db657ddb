"""The documentation says what the code does: links, settings, flags, causes, metrics, examples."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from partway.container.cli import convert as container_convert
from partway.container.cli import inspect as container_inspect
from partway.container.cli import new as container_new
from partway.container.cli import serve as container_serve
from partway.gateway.access.principals import Principals
from partway.gateway.apis.asynchronous.metrics import AsyncMetrics
from partway.gateway.cli import (
    backup,
    certs,
    conform,
    delete,
    deploy,
    dev,
    endpoints,
    fetch,
    invoke,
    kubeconfig,
    logs,
    operator,
    replay,
    restore,
    serve,
    token,
    transform,
)
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.discovery.metrics import DiscoveryMetrics
from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.states import OVER, InstanceState
from partway.gateway.fleet.states import TRANSITIONS as INSTANCE_TRANSITIONS
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.quota import LiveGateways
from partway.gateway.settings.endpoint_tables import BESIDE, EndpointTable, VariantTable
from partway.gateway.settings.settings import Settings, load
from partway.gateway.streams.ends import Cause, Ending
from partway.gateway.streams.metrics import Metrics
from partway.gateway.streams.open_stream import Counts
from partway.gateway.streams.states import OPEN, SessionState
from partway.gateway.streams.states import TRANSITIONS as SESSION_TRANSITIONS
from partway.gateway.workbench.conformance.probes import load_probe
from partway.gateway.workbench.intermediary.faults_file import load_faults
from partway.gateway.workbench.testing.container_file import read_plan
from tests.conftest import ROOT
from tests.gateway.fleet.statuses import an_endpoint
from tests.processes import running
from tests.state_diagrams import state_diagram

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def prose(text: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """What follows a heading, up to the next of its rank or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert found, f"no section {title!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str) -> list[list[str]]:
    """The body rows of the tables in a text, cell by cell."""
    found = []
    for line in text.splitlines():
        if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def first_names(text: str) -> list[str]:
    """What stands in backticks at the beginning of each row."""
    return [match[1] for row in rows(text) if (match := re.match(r"`([^`]+)`", row[0]))]


# --- Links ---------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The names that headings of a page can be linked by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path.read_text("utf-8")), re.MULTILINE)
    bare = (re.sub(r"[`*\\]|\[|\]\([^)]*\)", "", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in bare}


def links(path: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", prose(path.read_text("utf-8")))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(path):
    broken = []
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if (
            not target.exists()
            or not target.is_relative_to(ROOT)
            or (anchor and anchor not in anchors(target))
        ):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_address_in_the_repository_is_that_of_a_file(path):
    named = re.findall(r"partway/partway/(?:blob|tree)/main/([^)#\s]+)", path.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_linked_from_the_contents():
    contents = ROOT / "docs" / "README.md"
    linked = {(contents.parent / link.partition("#")[0]).resolve() for link in links(contents)}
    assert [path for path in PAGES if path not in linked | {contents, ROOT / "README.md"}] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_clients_of_boto3_on_a_page_have_keys_without_which_they_send_nothing(path):
    text = path.read_text("utf-8")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if "import boto3" in block[1] and "boto3.client(" in block[1]:
            said = text[: block.start()]
            assert "aws_secret_access_key" in block[1] or "AWS_SECRET_ACCESS_KEY=" in said


# --- Settings ------------------------------------------------------------------------------------


def documented_defaults(title: str) -> dict[str, str]:
    found = {}
    for name, default, *_ in rows(section(page("reference/settings.md"), title)):
        if name.startswith("`"):
            found[name.strip("`")] = default.strip("`")
    return found


def as_written(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case frozenset() | ():
            return json.dumps(sorted(value))
        case {}:
            return "{}"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


@pytest.mark.parametrize(("title", "tree"), [("Top level", Settings), ("Streams", StreamPolicy)])
def test_every_setting_is_documented_with_its_default(title, tree):
    defaults = {field.name: field.default for field in dataclasses.fields(tree)}
    for table in (
        "api_environment", "cluster", "endpoints", "images", "inclusive_slices",
        "local_results", "local_roots", "policy", "times",
        "topics",
    ):  # fmt: skip
        defaults.pop(table, None)
    assert documented_defaults(title) == {
        name: as_written(value) for name, value in defaults.items()
    }


def keys_with_defaults(*tables: type) -> dict[str, object]:
    """What the tables of a file may have, and what is taken where they do not have it."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else {}
        for table in tables
        for field in dataclasses.fields(table)
    }


def test_every_key_of_an_endpoint_is_documented_with_its_default():
    keys = keys_with_defaults(EndpointTable, VariantTable)
    of_streams = {field.name for field in dataclasses.fields(StreamPolicy)}
    assert documented_defaults("Endpoints") == {
        name: as_written(default)
        for name, default in keys.items()
        if name not in of_streams | {"variants"}
    }


def test_an_endpoint_s_page_says_beside_what_each_key_has_a_meaning():
    cells = rows(section(page("reference/settings.md"), "Endpoints"))
    beside = {
        name.strip("`"): tuple(re.findall(r"`(\w+)`", cell)) for name, _, cell, *_ in cells[1:]
    }
    assert {name: sources for name, sources in beside.items() if sources} == {
        name: sources for name, (sources, _) in BESIDE.items()
    }


def toml_blocks() -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(ROOT)), block)
        for path in PAGES
        for block in re.findall(
            r"^```toml\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
    ]


def test_there_is_an_example_of_a_configuration():
    assert "docs/how-to/configure.md" in dict(toml_blocks())


#: The variables of a pod, by which it finds its cluster.
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(("place", "block"), toml_blocks())
def test_configurations_in_the_docs_are_good(place, block, tmp_path):
    config = tmp_path / "partway.toml"
    config.write_text(block, "utf-8")
    if "[[principals]]" in block:
        assert len(Principals(config, time.time)) > 0
    elif block.startswith("# probe.toml"):
        (tmp_path / "hello.pcm").write_bytes(b"")
        assert load_probe(config).messages
    elif re.match(r"# (tests/)?conformance\.toml", block):
        (tmp_path / "probe.toml").write_text('messages = ["a"]')
        assert read_plan(config).checks
    elif block.startswith("# faults.toml"):
        assert load_faults(config)
    else:
        load({}, POD, config)


# --- Commands ------------------------------------------------------------------------------------


def flags(parser: argparse.ArgumentParser) -> set[str]:
    return {
        option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }


def parser_of(name: str) -> argparse.ArgumentParser:
    ours = (container_serve, container_new, container_convert, container_inspect)
    theirs = (
        serve,
        deploy,
        delete,
        endpoints,
        logs,
        invoke,
        transform,
        certs,
        kubeconfig,
        token,
        dev,
        conform,
        replay,
        backup,
        restore,
        operator,
        fetch,
    )
    top = argparse.ArgumentParser()
    adding = top.add_subparsers()
    for command in ours if name.startswith("partway-container") else theirs:
        command.add_to(adding)
    commands = top._subparsers
    assert commands is not None
    choices: dict[str, Any] = commands._group_actions[0].choices  # type: ignore[assignment]
    return choices[name.split()[1]]


COMMANDS = [
    *("partway serve", "partway deploy", "partway delete", "partway endpoints", "partway logs"),
    *("partway invoke", "partway transform", "partway certs", "partway kubeconfig"),
    *("partway token", "partway operator", "partway fetch"),
    *("partway backup", "partway restore", "partway dev"),
    *("partway conform", "partway replay"),
    *("partway-container serve", "partway-container new"),
    *("partway-container convert", "partway-container inspect"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_is_documented(name):
    documented = first_names(section(page("reference/commands.md"), name))
    assert len(set(documented)) == len(documented)
    assert {flag.split()[0] for flag in documented if flag.startswith("--")} == flags(
        parser_of(name)
    )


#: Whose flags a line of a page may have, beside ours.
OTHER_PROGRAMS = ("docker", "helm", "http.server", "kubectl", "pytest", "systemd-run", "vllm")


def test_flags_that_pages_mention_exist():
    known = {"--help", "--version"}.union(*map(flags, map(parser_of, COMMANDS)))
    unknown = {
        f"{path.relative_to(ROOT)}: {flag}"
        for path in PAGES
        for line in path.read_text("utf-8").replace("\\\n", " ").splitlines()
        if "partway" in line and not line.startswith("#")
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", line)
        if flag not in known
        if not any(other in line for other in OTHER_PROGRAMS)
    }
    assert unknown == set()


# --- Causes and metrics --------------------------------------------------------------------------


def test_every_cause_is_explained_and_none_that_is_none():
    documented = first_names(section(page("how-to/operate.md"), "How streams end"))
    assert sorted(documented) == sorted(cause.value for cause in Cause)


def exposed() -> dict[str, set[str]]:
    """Every metric that a gateway can expose, by name, with its labels."""

    class Session:
        endpoint, buffered_bytes, started_at, first_part_at, ended_at = "e", 1, 0.0, 1.0, 2.0
        from_client = from_container = Counts(1, 1)
        ending = Ending(Cause.COMPLETED)

    gone: Any = Session()
    still_open: Any = Session()
    metrics = Metrics({still_open})
    metrics.ended(gone)
    metrics.refused("ModelError")
    metrics.closed_to_new("resets")
    metrics.dropped("full")
    metrics.connections["2"] = lambda: 1
    of_the_fleet = FleetMetrics(lambda: (an_endpoint(),), metrics.registry)
    of_the_fleet.launched("e", "v", 1.0)
    RequestMetrics(metrics.registry).ended("e", "v", 200, 1.0, 1.0)
    AsyncMetrics(metrics.registry, *[lambda: 1] * 3).ended("e", None)
    of_the_process = ProcessMetrics(metrics.registry, {"max_streams": 1})
    of_the_process.watch_certificate(lambda: 1.0)
    sources: Any = SimpleNamespace(namespaces=("n",), troubles={})
    DiscoveryMetrics(sources, LiveGateways(), metrics.registry)
    ends = {"counter": "_total", "info": "_info"}
    found: dict[str, set[str]] = {}
    for family in metrics.registry.collect():
        name = family.name + ends.get(family.type, "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = labels
    return found


def test_every_metric_is_documented_with_its_labels():
    documented = {}
    for name in first_names(section(page("how-to/operate.md"), "Watch")):
        metric = re.fullmatch(r"((?:partway|process)_\w+)(?:\{([\w,]+)\})?", name)
        if metric:
            documented[metric[1]] = set((metric[2] or "").split(",")) - {""}
    assert documented == exposed()


def diagram_on(name: str) -> str:
    """The diagram of a page; a test that compares it shows the one that belongs there."""
    (shown,) = re.findall(
        r"^<!-- made from the table .*?-->\n```mermaid\n(.*?)^```\n<!-- end of the table -->$",
        page(name),
        re.MULTILINE | re.DOTALL,
    )
    return shown


def test_the_diagram_of_an_instances_life_is_its_table():
    made = state_diagram(
        InstanceState.PENDING,
        ((old, event, new) for (old, event), new in INSTANCE_TRANSITIONS.items()),
        [state for state in InstanceState if state in OVER],
    )
    assert diagram_on("how-to/health.md") == made
    described = {
        name
        for row in rows(section(page("how-to/health.md"), "An instance's life"))[1:]
        for name in re.findall(r"`([A-Z]\w+)`", row[0])
    }
    assert described == {state.value for state in InstanceState}


def test_the_diagram_of_a_streams_life_is_its_table():
    made = state_diagram(
        SessionState.RELAYING,
        ((old, event, new) for (old, event), (new, _) in SESSION_TRANSITIONS.items()),
        [SessionState.ENDED],
        ("Open", OPEN),
    )
    assert diagram_on("discussion/architecture.md") == made


def test_a_diagram_has_one_arrow_for_all_that_leads_from_one_state_to_another():
    transitions = [
        ("A", "grows", "B"), ("A", "stays", "A"), ("A", "dies", "C"), ("A", "breaks", "C"),
        ("B", "dies", "C"), ("B", "fades", "C"),
    ]  # fmt: skip
    assert state_diagram("A", transitions, ["C"]) == (
        "stateDiagram-v2\n    [*] --> A\n    A --> B : grows\n    A --> C : dies<br>breaks\n"
        "    B --> C : dies<br>fades\n    C --> [*]\n"
    )
    assert state_diagram("A", transitions, ["C"], ("Alive", ["A", "B"])) == (
        "stateDiagram-v2\n    [*] --> A\n    state Alive {\n        A --> B : grows\n    }\n"
        "    Alive --> C : dies\n    A --> C : breaks\n    B --> C : fades\n    C --> [*]\n"
    )


# --- Examples ------------------------------------------------------------------------------------


def test_the_demo():
    process = subprocess.run(
        [sys.executable, ROOT / "docs" / "examples" / "first_stream.py"],
        capture_output=True,
        timeout=150,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"},
    )
    output = process.stdout.decode()
    assert process.returncode == 0, output + process.stderr.decode()
    assert "every part came back as it went; the stream ended cleanly" in output
    assert "partway stopped with status 0" in output
    assert "partway-container stopped with status 0" in output
    assert output.count("↑") == output.count("↓") == 7
    assert "\\x" not in output, (
        "a code point that is cut shows its bytes, and no escapes of Python's"
    )
    shown = re.search(r"^`make demo` shows.*?^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown, "the README shows a piece of it"
    timeless = re.sub(r"\d\.\d{4} s", "#", output)
    assert re.sub(r"\d\.\d{4} s", "#", shown[1]) in timeless


README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "docs/reference/client.md"),
        *(f"gateway/client/{name}.py" for name in ("__init__", "sync", "backoff")),
    ],
)
def test_the_python_examples(name):
    """They run as they are written, with an echo; in a coroutine if they need one."""
    text = (ROOT / name).read_text("utf-8")
    if name.endswith(".py"):
        blocks = [textwrap.dedent(re.search(r"::\n\n((?:    .*\n|\n)+)", text)[1])]
    else:
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    with running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as container:
        endpoint = f"echo={container}"
        with running(
            "partway.gateway.cli.main", "serve", "--port", "0", "--endpoint", endpoint
        ) as url:
            printed = [run_example(block, url) for block in blocks]
    assert printed == [said(block) for block in blocks]


def run_example(block: str, url: str) -> list[str]:
    """Run an example with the gateway that there is; returns the lines that it prints."""
    assert "http://127.0.0.1:8090" in block
    program = block.replace("http://127.0.0.1:8090", url)
    if "async " in program and "asyncio.run(" not in program:
        body = textwrap.indent(program, "    ")
        program = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())"
    imports = "from partway import connect, connect_sync, reconnecting\n"
    process = subprocess.run(
        [sys.executable, "-c", imports + program],
        capture_output=True,
        timeout=50,
        check=False,
        cwd=ROOT,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stderr == b""
    return process.stdout.decode().splitlines()


def said(block: str) -> list[str]:
    """What an example says that it prints: in the comments of its lines, or all of its parts."""
    if "print(part." in block:
        return [
            "b'Hello ' DataType.UTF8 CompletionState.PARTIAL",
            "b'world' DataType.UTF8 CompletionState.COMPLETE",
        ]
    printing = [line for line in block.splitlines() if "print(" in line]
    return [line.partition("  # ")[2] for line in printing]


def test_the_public_names_are_documented():
    from partway.gateway import client

    reference = page("reference/client.md")
    methods = [
        name
        for name in vars(client.ClientStream)
        if not name.startswith("_") and name in PUBLIC_METHODS
    ]
    assert sorted(methods) == sorted(PUBLIC_METHODS)
    for name in [*methods, *client.__all__, "SyncStream", "connect_sync", "reconnecting"]:
        if name not in {"DataType", "CompletionState"}:
            assert re.search(rf"\b{name}\b", reference), name


PUBLIC_METHODS = (
    *("send", "send_text", "send_bytes", "end_input"),
    *("receive", "messages", "ask", "close"),
)
