"""The pytest plugin of Partway. Every start of pytest imports it where Partway is installed.

So this module imports only pytest: the rest is imported with the first file or test that needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from partway.gateway.workbench.testing.container_checks import ConformanceFile
    from partway.gateway.workbench.testing.running_gateway import RunningGateway

# --- For containers: each check of a named container is a test ------------------------------------

_FILE = "conformance.toml"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ConformanceFile | None:
    """Take ``conformance.toml`` and ``*.conformance.toml`` as files of tests."""
    if file_path.name != _FILE and not file_path.name.endswith(f".{_FILE}"):
        return None
    from partway.gateway.workbench.testing.container_checks import ConformanceFile

    return ConformanceFile.from_parent(parent, path=file_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List findings below the results that failed no test."""
    known = [
        (report.nodeid, text)
        for outcome in ("passed", "xfailed")
        for report in terminalreporter.stats.get(outcome, ())
        for title, text in report.sections
        if title == "Captured partway call"  # pytest's title for a section of ours
    ]
    if known:
        terminalreporter.section("partway: findings that fail no test")
    for node, text in known:
        terminalreporter.line(f"{node}: {text}")


# --- For clients: an endpoint with a test's script ------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark ``partway`` known to pytest."""
    config.addinivalue_line(
        "markers", "partway(**settings): settings for the streams of this test's partway_gateway"
    )


@pytest.fixture
def partway_gateway(request: pytest.FixtureRequest) -> Iterator[RunningGateway]:
    """A running gateway before a container that follows the test's script."""
    from partway.gateway.workbench.testing.running_gateway import RunningGateway, log_shown

    settings: dict[str, object] = {}
    for marker in request.node.iter_markers("partway"):  # the nearest first
        if marker.args:
            pytest.fail(
                f"@pytest.mark.partway: {marker.args[0]!r} was given; it must be settings by name"
            )
        settings = {**marker.kwargs, **settings}
    with log_shown(), RunningGateway(**settings) as gateway:
        yield gateway
