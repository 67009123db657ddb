"""``partway conform``: check a container against the contract, clause by clause."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import seconds
from partway.gateway.cli.process import INTERRUPTED, until_signalled
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.fleet.launchers.images import ENGINE_SCHEME, is_image
from partway.gateway.fleet.processes.unexpanded import unexpanded_variables
from partway.gateway.plain_text import safe, safe_lines
from partway.gateway.storage.files import is_file_or_folder
from partway.gateway.terminal import console_for, print_line
from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.image import CHECKS, stops_the_start
from partway.gateway.workbench.conformance.plan import AskedWrongly, Plan, Question, understood
from partway.gateway.workbench.conformance.platform.checks import ALL as PLATFORM
from partway.gateway.workbench.conformance.platform.container import InstrumentedContainer
from partway.gateway.workbench.conformance.platform.run import PlatformRun
from partway.gateway.workbench.conformance.platform.trial import Platform, Times
from partway.gateway.workbench.conformance.report.html import to_html
from partway.gateway.workbench.conformance.report.json_report import to_json
from partway.gateway.workbench.conformance.report.junit import to_junit
from partway.gateway.workbench.conformance.report.matrix import matrix, show_matrix
from partway.gateway.workbench.conformance.report.terminal import progress, show
from partway.gateway.workbench.conformance.run import Report, Result, Run, chosen
from partway.gateway.workbench.conformance.verdict import Verdict
from partway.protocol.limits import CONTAINER_PING_INTERVAL

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_USUAL_PROBE = "echo"

#: Seconds between Pings that ``--fast`` still waits for.
_SHORT_INTERVAL = 1.0

#: Suffixes of archives. A missing file with such a name is not looked up at an engine.
_ARCHIVES = (".tar", ".tar.gz", ".tgz")

_EXAMPLES = """\
examples:
  partway conform --command "partway-container serve --model echo"
  partway conform --command "uvicorn app:app --port {port}" --fast
  partway conform --url http://127.0.0.1:8080 --path v1/listen --query model=general --fast
  partway conform --command "python app.py serve" --probe question.toml --junit conform.xml
  docker save my-model -o my-model.tar; partway conform --image my-model.tar
  partway conform --image my-model:1 --probe chat --fast
  partway conform --platform http://127.0.0.1:8090 --endpoint echo --listen 127.0.0.1:8080 --fast
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "conform",
        help=COMMANDS["conform"],
        description=(
            "Check a container against the wire contract, clause by clause. The container may run "
            "already (--url), or the command starts it as the platform would (--command, --image). "
            "An image's archive is checked without a start. With --platform, check a gateway: a "
            "container of the command's records the gateway's messages."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --model, meant for the container, would be --model-dir
    )
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--url", metavar="http://HOST:PORT", help="check a running container")
    subject.add_argument(
        "--command",
        dest="entrypoint",
        metavar="COMMAND",
        help="start a container by a command, as `partway serve` would: {port} stands for its port",
    )
    subject.add_argument(
        "--image",
        metavar="FILE|NAME:TAG",
        help="check an image's archive (.tar or .tar.gz), or a container of the container engine's "
        "image",
    )
    subject.add_argument(
        "--platform",
        metavar="http://HOST:PORT",
        help="check a running gateway without authentication",
    )
    subject.add_argument(
        "--matrix", action="store_true", help="print the clauses and their checks, and exit"
    )
    parser.add_argument("--endpoint", metavar="NAME", help="the gateway's endpoint, for --platform")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="address at which the gateway expects that endpoint's container, for --platform",
    )
    parser.add_argument(
        "--ping-interval",
        type=seconds,
        default=CONTAINER_PING_INTERVAL,
        metavar="SECONDS",
        help="that endpoint's ping_interval, for --platform (%(default)g)",
    )
    parser.add_argument("--path", default="", help="path of streams, without a leading slash")
    parser.add_argument("--query", default="", help="query of streams, key=value&key=value")
    parser.add_argument(
        "--probe",
        default=_USUAL_PROBE,
        metavar="NAME|FILE",
        help="messages for the model: echo, chat, speech, or a file (%(default)s)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="ID",
        help="run only these checks or areas of checks, and the checks that they require",
    )
    parser.add_argument("--fast", action="store_true", help="cut long waits short")
    for kind, what in (("json", "JSON"), ("junit", "JUnit XML"), ("html", "one HTML page")):
        parser.add_argument(
            f"--{kind}", metavar="FILE", help=f"write the report as {what}; - is standard output"
        )
    parser.add_argument(
        "--model-dir",
        type=Path,
        metavar="DIR",
        help="folder of the model's artifacts, for --command or an engine's image (an empty one)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=_variable,
        metavar="NAME=VALUE",
        help="a variable in the container's environment, for --command or an engine's image; may "
        "be repeated",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 for a conformant container, 1 for another, 2 on bad usage."""
    # a log's encoding may lack characters of the container's
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.matrix:
        show_matrix(matrix([*CHECKS, *ALL, *PLATFORM]), console_for(sys.stdout))
        return 0
    try:
        files = _files(options)
        report = _report(options)
        if report is None:
            _say("interrupted")
            return INTERRUPTED
        show(report, console_for(sys.stderr if "-" in files.values() else sys.stdout))
        _write(report, files)
    except AskedWrongly as error:
        _say(str(error))
        return 2
    return report.status


def _say(what: str) -> None:
    for line in safe_lines(what):
        print(f"partway conform: {line}", file=sys.stderr)


# --- Checking -------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> Report | None:
    """Run the checks that the options name; None if a signal came before the end."""
    if options.platform is not None:
        _check_nothing_of_containers(options)
        return asyncio.run(until_signalled(_try_platform(options)))
    if options.endpoint or options.listen:
        raise AskedWrongly("--endpoint and --listen work only with --platform")
    archive, tag = _image(options.image)
    plan = understood(
        Question(
            command=options.entrypoint,
            url=options.url,
            image=archive,
            tag=tag,
            env=dict(options.env),
            model_dir=options.model_dir,
            path=options.path,
            query=options.query,
            probe=options.probe,
            fast=options.fast,
            only=options.only,
        )
    )
    if archive is not None:
        return plan.examined()
    for warning in unexpanded_variables(plan.command):
        _say(f"--command: {warning}")
    return asyncio.run(until_signalled(_try(plan)))


def _image(given: str | None) -> tuple[Path | None, str | None]:
    """Split ``--image`` into an archive's path, if it is or looks like one, or an image's name."""
    if given is None:
        return None, None
    path = Path(given)
    if is_file_or_folder(path) or given.endswith(_ARCHIVES) or not is_image(given):
        return path, None
    return None, given.removeprefix(ENGINE_SCHEME)


def _check_nothing_of_containers(options: argparse.Namespace) -> None:
    named = {
        "--path": options.path,
        "--query": options.query,
        "--probe": options.probe != _USUAL_PROBE,
        "--model-dir": options.model_dir,
        "--env": options.env,
    }
    for name, given in named.items():
        if given:
            raise AskedWrongly(f"{name} works only for a container; --platform checks a gateway")


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in value:
        raise argparse.ArgumentTypeError(f"{text!r} was given; it must be NAME=VALUE")
    return name, value


async def _try(plan: Plan) -> Report:
    examined = await plan.examined_by_engine() if plan.image_checks else None
    first = None if examined is None else stops_the_start(examined)
    if examined is not None and (first or not plan.checks):
        said = f"{first} did not pass"
        examined.results += [Result(each, Verdict.BLOCKED, said=said) for each in plan.checks]
        return examined
    console = console_for(sys.stderr)
    with progress(plan.checks, console) as on_result:
        async with plan.subject() as subject:
            run = Run(
                *(plan.checks, plan.probe),
                fast=plan.question.fast,
                on_result=on_result,
                on_slow=partial(_tell_slow_start, console),
            )
            report = await run.run(subject)
    if examined is not None:
        report.results[:0] = examined.results
    return report


def _tell_slow_start(console: Console, seconds: float, reason: str) -> None:
    said = f"partway conform: waiting for the container for {seconds:.0f} s: {reason}"
    print_line(console, Text(safe(said)))


async def _try_platform(options: argparse.Namespace) -> Report:
    if not options.endpoint or not options.listen:
        raise AskedWrongly(
            "--platform needs --endpoint NAME, and --listen HOST:PORT where the gateway expects "
            "that endpoint's container"
        )
    if not options.platform.startswith(("http://", "https://")):
        raise AskedWrongly(f"--platform {options.platform}: it must begin with http:// or https://")
    try:
        checks = chosen(PLATFORM, options.only)
    except ValueError as error:
        raise AskedWrongly(f"--only: {error}") from error
    try:
        listen = container_address(f"http://{options.listen}")
    except ValueError as error:
        raise AskedWrongly(f"--listen {options.listen}: {error}") from error
    times = Times(ping_interval=options.ping_interval)
    # With short times nothing takes minutes: the endpoint itself is the hurried one.
    hurried = options.endpoint if options.ping_interval <= _SHORT_INTERVAL else None
    platform = Platform(options.platform, options.endpoint, hurried, times)
    with progress(checks, console_for(sys.stderr)) as on_result:
        try:
            async with InstrumentedContainer(listen) as container:
                run = PlatformRun(checks, fast=options.fast, on_result=on_result)
                return await run.run(platform, container)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise AskedWrongly(f"--listen {options.listen}: {why}") from error


# --- The report -----------------------------------------------------------------------------------


def _files(options: argparse.Namespace) -> dict[Callable[[Report], str], str]:
    """The reports' files, by the functions that write them; checked before the run."""
    asked = {to_json: options.json, to_junit: options.junit, to_html: options.html}
    files: dict[Callable[[Report], str], str] = {
        make: file for make, file in asked.items() if file is not None
    }
    if list(files.values()).count("-") > 1:
        raise AskedWrongly("--json, --junit and --html: only one of them can be standard output")
    for file in files.values():
        path = Path(file)
        if file != "-" and (path.is_dir() or not path.parent.is_dir()):
            raise AskedWrongly(f"{file}: it must be a file in a folder that exists")
    return files


def _write(report: Report, files: dict[Callable[[Report], str], str]) -> None:
    for make, file in files.items():
        text = make(report)
        if file == "-":
            print(text, end="")
            continue
        try:
            Path(file).write_text(text, "utf-8")
        except OSError as error:
            raise AskedWrongly(f"{file}: {error.strerror}") from error
