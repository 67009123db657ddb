"""partway.variables: which of the environment's variables nobody knows, and the nearest one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from partway.container.cli.environment import VARIABLES as OF_CONTAINERS
from partway.container.cli.environment import variables_of_models
from partway.documentation import page
from partway.gateway.settings.settings import VARIABLES as OF_THE_GATEWAY
from partway.variables import unknown_variables
from tests.container.cli.commands import PATIENCE, environment

OF_CLIENTS = {"PARTWAY_URL", "PARTWAY_TOKEN", "PARTWAY_CONFIG"}


@pytest.mark.parametrize("own", [(), OF_CONTAINERS], ids=["gateway", "container"])
def test_whoever_asks_knows_the_variables_of_all(own):
    names = OF_THE_GATEWAY | OF_CONTAINERS | OF_CLIENTS | variables_of_models()
    assert unknown_variables(dict.fromkeys(names, "x") | {"PATH": "/bin", "HOME": "/"}, own) == ""


@pytest.mark.parametrize("own", [(), OF_CONTAINERS], ids=["gateway", "container"])
@pytest.mark.parametrize(
    ("misspelt", "nearest"),
    [
        ("PARTWAY_LIFETME", "PARTWAY_LIFETIME"),
        ("PARTWAY_INPUTEND", "PARTWAY_INPUT_END"),
        ("PARTWAY_MODLE", "PARTWAY_MODEL"),
        ("PARTWAY_TEXT_DEVISE", "PARTWAY_TEXT_DEVICE"),
        ("PARTWAY_TOKENS", "PARTWAY_TOKEN"),
    ],
)
def test_the_nearest_known_one_is_named(own, misspelt, nearest):
    assert unknown_variables({misspelt: ""}, own) == (
        f"{misspelt}: this variable is unknown; the nearest known one is {nearest}"
    )


@pytest.mark.parametrize(
    ("own", "where"), [((), "settings"), (OF_CONTAINERS, "container")], ids=["gateway", "container"]
)
def test_each_has_a_line_and_what_is_like_none_sees_where_all_are(own, where):
    said = unknown_variables({"PARTWAY_XYZZY": "1", "PARTWAY_PROT": "2", "PARTWAY_URL": "u"}, own)
    first, second = said.splitlines()
    assert first.startswith("PARTWAY_PROT: ")
    assert first.endswith("PARTWAY_PORT")
    assert second == (
        "PARTWAY_XYZZY: this variable is unknown; it must be one of those in "
        + page(f"reference/{where}.md")
    )


def test_many_are_counted():
    *named, last = unknown_variables({f"PARTWAY_{n:02}": "" for n in range(12)}).splitlines()
    assert [line[:10] for line in named] == [f"PARTWAY_{n:02}" for n in range(10)]
    assert last == "there are 2 more unknown variables PARTWAY_…"


def test_a_name_of_somebody_elses_steers_no_terminal():
    assert "\x1b" not in unknown_variables({"PARTWAY_\x1b[2J": "1"})
    assert len(unknown_variables({"PARTWAY_" + "LIFETIME" * 5000: "1"})) < 5000


@pytest.mark.parametrize("service", ["PARTWAY", "PARTWAY_GATEWAY"])
def test_links_that_kubernetes_puts_there_are_nobodys_spelling(service):
    """Beside a Service called partway or partway-gateway, as kubelet names them."""
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.11",
        f"{service}_SERVICE_PORT": "8090",
        f"{service}_SERVICE_PORT_HTTP": "8090",
        f"{service}_PORT": "tcp://10.0.0.11:8090",
        f"{service}_PORT_8090_TCP": "tcp://10.0.0.11:8090",
        f"{service}_PORT_8090_TCP_PROTO": "tcp",
        f"{service}_PORT_8090_TCP_PORT": "8090",
        f"{service}_PORT_8090_TCP_ADDR": "10.0.0.11",
    }
    assert unknown_variables(links) == ""
    assert "PARTWAY_GATEWAY_PORT: " in unknown_variables({"PARTWAY_GATEWAY_PORT": "8090"})


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("partway", "serve"), "partway serve: "),
        (("partway", "invoke", "echo", "--text", "hi"), "partway invoke: "),
        (("partway", "dev"), "partway dev: "),
        (("partway", "conform", "--command", "true"), "partway conform: "),
        (("partway.container", "serve"), "partway-container: "),
    ],
    ids=" ".join,
)
def test_a_command_refuses_before_it_does_anything(words, begins):
    module, *arguments = words
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(PARTWAY_LIFETME="1", PARTWAY_MODLE="echo"),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{begins}{name}: this variable is unknown; the nearest known one is {nearest}"
        for name, nearest in (
            ("PARTWAY_LIFETME", "PARTWAY_LIFETIME"),
            ("PARTWAY_MODLE", "PARTWAY_MODEL"),
        )
    ]


@pytest.mark.parametrize("words", [("--version",), ("completion", "bash"), ("serve", "--help")])
def test_who_reads_no_variables_refuses_none(words):
    done = subprocess.run(
        [sys.executable, "-m", "partway", *words],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=environment(PARTWAY_LIFETME="1"),
    )
    assert done.returncode == 0
