"""The systemd unit agrees with the gateway's defaults. ``make engine`` has systemd read it."""

from __future__ import annotations

import re
import signal

import pytest

from partway.gateway.fleet.limits import KILL_TIMEOUT, OUTPUT_CLOSE_TIMEOUT, STOP_GRACE
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.store.limits import STORE_CLOSE_TIMEOUT
from tests.conftest import ROOT

UNIT = ROOT / "docs" / "examples" / "partway-gateway.service"


@pytest.fixture(scope="module")
def service() -> dict[str, str]:
    """The settings of the unit; the last of several lines of one name."""
    return dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE))


def test_it_is_not_killed_while_it_stops(service):
    """Streams end, then instances, then what is kept is written: each takes its time at most."""
    settings = Settings()
    streams = settings.shutdown_grace + settings.shutdown_spread
    instances = max(settings.shutdown_hard, STOP_GRACE + KILL_TIMEOUT)
    longest = streams + instances + OUTPUT_CLOSE_TIMEOUT + STORE_CLOSE_TIMEOUT
    assert longest <= float(service["TimeoutStopSec"]) <= 2 * longest


def test_programs_are_the_gateways_to_stop(service):
    """Else systemd sends them SIGTERM at once, and their streams are cut."""
    assert service["KillMode"] == "mixed"


def test_reload_is_the_signal_that_the_gateway_takes(service):
    assert service["ExecReload"] == f"/bin/kill -{signal.SIGHUP.name[3:]} $MAINPID"


def test_descriptors_are_enough_for_the_defaults(service):
    settings = Settings()
    most = settings.max_connections + settings.max_streams + settings.max_requests
    assert int(service["LimitNOFILE"]) >= most


def test_the_page_names_each_protection_that_gpus_and_compilers_are_up_against(service):
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text("utf-8")
    for name in ("PrivateDevices", "ProcSubset", "MemoryDenyWriteExecute", "ProtectHome"):
        assert name in service
        assert f"`{name}=" in page
