"""partway.gateway.settings: where a value comes from, and what is said of a wrong one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.dialling import Address
from partway.gateway.fleet.endpoints import Endpoint
from partway.gateway.settings import Settings, SettingsError, is_loopback, load
from partway.gateway.streams.policy import StreamPolicy
from partway.protocol.limits import MAX_PART_BYTES


@pytest.fixture
def toml(tmp_path: Path):
    """Writes a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "partway.toml"
        path.write_text(text, "utf-8")
        return path

    return write


def wrong(flags: dict[str, Any], environment: dict[str, str], config: Path | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(flags, environment, config)
    return str(caught.value)


# --- Precedence ----------------------------------------------------------------------------------

#: Name, its default, and three values: as in TOML, in the environment, and from a flag. The last
#: three as settings: what each comes to.
SOURCES = [
    ("host", "127.0.0.1", '"127.0.0.2"', "127.0.0.3", "127.0.0.4", "127.0.0.2", "127.0.0.3"),
    ("port", 8090, "1", "2", 3, 1, 2),
    ("log_level", "info", '"debug"', "warning", "error", "debug", "warning"),
    (
        "allow_origins", frozenset(), '["https://a", "https://b"]', "https://c, https://d,",
        ["https://e"], frozenset({"https://a", "https://b"}), frozenset({"https://c", "https://d"}),
    ),
    ("insecure", False, "true", "0", True, True, False),
    ("max_streams", 4096, "1", "2", 3, 1, 2),
    ("max_streams_per_connection", 1000, "1", "2", 3, 1, 2),
    ("max_connections", 8192, "1", "2", 3, 1, 2),
    ("tls_port", None, "8443", "0", 443, 8443, 0),
    ("region", "us-east-1", '"eu-west-1"', "ap-south-2", "sa-east-1", "eu-west-1", "ap-south-2"),
    ("shutdown_grace", 15.0, "1", "2.5", 0.0, 1.0, 2.5),
    ("shutdown_spread", 5.0, "0.5", "0", 3.0, 0.5, 0.0),
    ("shutdown_hard", 5.0, "1.5", "2", 3.0, 1.5, 2.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "default", "text", "variable", "flag", "from_toml", "from_environment"),
    SOURCES,
    ids=[row[0] for row in SOURCES],
)
def test_flag_over_environment_over_toml_over_default(
    toml, name, default, text, variable, flag, from_toml, from_environment
):
    def value(*sources: str) -> object:
        loaded = load(
            {name: flag} if "flag" in sources else {},
            {f"PARTWAY_{name.upper()}": variable} if "environment" in sources else {},
            toml(f"{name} = {text}") if "toml" in sources else None,
        )
        return getattr(loaded, name)

    from_flag = frozenset(flag) if isinstance(flag, list) else flag
    assert value() == default
    assert value("toml") == from_toml
    assert value("environment") == from_environment
    assert value("environment", "toml") == from_environment
    assert value("flag") == from_flag
    assert value("flag", "toml") == from_flag
    assert value("flag", "environment", "toml") == from_flag


def test_every_setting_is_in_the_table():
    together = {"auth", "principals", "tls_cert", "tls_key", "tls_names"}
    named = {row[0] for row in SOURCES} | together | {"endpoints"}
    assert {field.name for field in dataclasses.fields(Settings)} == named


def test_signatures_and_their_principals(toml):
    config = toml('auth = "sigv4"\nprincipals = "who.toml"\nhost = "0.0.0.0"')
    loaded = load({}, {}, config)
    assert (loaded.auth, loaded.principals) == ("sigv4", Path("who.toml"))
    assert load({"principals": Path("b")}, {"PARTWAY_PRINCIPALS": "a"}, config).principals == Path(
        "b"
    )


def test_a_certificate_and_its_key(toml):
    config = toml('tls_port = 1\ntls_cert = "c.pem"\ntls_key = "k.pem"')
    loaded = load({}, {"PARTWAY_TLS_KEY": "other.pem"}, config)
    assert (loaded.tls_cert, loaded.tls_key) == (Path("c.pem"), Path("other.pem"))
    assert load({"tls_port": 1}, {"PARTWAY_TLS_NAMES": "a,b"}).tls_names == {"a", "b"}


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"auth": "sigv4"}, "--auth sigv4 needs --principals"),
        ({"principals": Path("p")}, "--principals is read with --auth sigv4 only"),
        ({"tls_port": 1, "tls_cert": Path("c")}, "--tls-cert and --tls-key go together"),
        ({"tls_port": 1, "tls_key": Path("k")}, "--tls-cert and --tls-key go together"),
        ({"tls_cert": Path("c"), "tls_key": Path("k")}, "add --tls-port"),
        ({"tls_names": ["a"]}, "add --tls-port"),
        ({"region": "US East"}, "region: 'US East' is none"),
        ({"host": "0.0.0.0"}, "add --auth sigv4, or --insecure"),
    ],
)
def test_what_does_not_go_together(flags, what):
    with pytest.raises(SettingsError, match=what):
        load(flags, {})


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "True"])
def test_true_in_the_environment(text):
    assert load({}, {"PARTWAY_INSECURE": text}).insecure is True


@pytest.mark.parametrize("text", ["0", "false", "FALSE"])
def test_false_in_the_environment(text):
    assert load({}, {"PARTWAY_INSECURE": text}).insecure is False


def test_other_programs_variables_are_left_alone():
    assert load({}, {"HOST": "0.0.0.0", "PORT": "1", "PARTWAY_URL": "http://h"}) == Settings()


def test_a_number_of_seconds_is_a_float():
    assert isinstance(load({}, {"PARTWAY_SHUTDOWN_GRACE": "3"}).shutdown_grace, float)


# --- Endpoints and their policies ----------------------------------------------------------------


def test_endpoints_inherit_what_they_do_not_set(toml):
    loaded = load(
        {},
        {},
        toml(
            """
            [stream]
            lifetime = 60
            input_end = "drain"
            [endpoints.a]
            url = "http://127.0.0.1:1"
            [endpoints.b]
            url = "http://[::1]:2/"
            lifetime = 61.5
            normal_close = "end"
            """
        ),
    )
    assert loaded.endpoints == (
        Endpoint("a", Address("127.0.0.1", 1), StreamPolicy(lifetime=60.0, input_end="drain")),
        Endpoint(
            "b",
            Address("::1", 2),
            StreamPolicy(lifetime=61.5, input_end="drain", normal_close="end"),
        ),
    )


def test_an_endpoint_of_the_command_line_takes_the_place_of_its_namesake(toml):
    config = toml(
        """
        [stream]
        max_part = 1000
        [endpoints.a]
        url = "http://a:1"
        lifetime = 5
        [endpoints.b]
        url = "http://b:1"
        """
    )
    loaded = load({"endpoints": ["a=http://other:2", "c=http://c:3"]}, {}, config)
    found = {endpoint.name: endpoint for endpoint in loaded.endpoints}
    assert {name: str(endpoint.container) for name, endpoint in found.items()} == {
        "a": "other:2",
        "b": "b:1",
        "c": "c:3",
    }
    assert found["a"].policy == found["c"].policy == StreamPolicy(max_part=1000)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(StreamPolicy)])
def test_every_policy_can_be_set(toml, name):
    """For all endpoints and for one."""
    default = getattr(StreamPolicy(), name)
    # 65,536 is between the default marks; any number would do for the rest.
    other = {"close": "drain", "error": "end"}.get(default, 65_536)
    written = f'"{other}"' if isinstance(other, str) else other
    url = 'url = "http://127.0.0.1:1"'
    for text in (
        f"[stream]\n{name} = {written}\n[endpoints.a]\n{url}",
        f"[endpoints.a]\n{url}\n{name} = {written}",
    ):
        (endpoint,) = load({}, {}, toml(text)).endpoints
        assert endpoint.policy == dataclasses.replace(StreamPolicy(), **{name: other})
        assert type(getattr(endpoint.policy, name)) is type(default)


# --- What is wrong, and where --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("prot = 1", "", "unknown setting 'prot'; known: host, port,"),
        ('port = "8090"', "port", "it is of type int, not '8090'"),
        ("port = true", "port", "it is of type int, not True"),
        ("port = 8090.0", "port", "it is of type int, not 8090.0"),
        ("port = 65536", "port", "it is from 0 to 65535, not 65536"),
        ("port = -1", "port", "it is from 0 to 65535, not -1"),
        ("host = 1", "host", "it is of type str, not 1"),
        ('auth = "basic"', "auth", "it is one of 'none', 'sigv4', not 'basic'"),
        ("insecure = 1", "insecure", "it is of type bool, not 1"),
        ('log_level = "loud"', "log_level", "one of 'debug', 'info', 'warning', 'error', not"),
        ('allow_origins = "https://a"', "allow_origins", "it is a list of strings"),
        ("allow_origins = [1]", "allow_origins", "it is a list of strings"),
        ("max_streams = 0", "max_streams", "it is from 1 to 1000000, not 0"),
        ("max_connections = -5", "max_connections", "it is from 1 to 1000000, not -5"),
        ("shutdown_grace = -1", "shutdown_grace", "it is from 0 to 86400, not -1.0"),
        ("shutdown_spread = nan", "shutdown_spread", "it is from 0 to 86400, not nan"),
        ("shutdown_hard = inf", "shutdown_hard", "it is from 0 to 86400, not inf"),
        ("stream = 1", "[stream]", "is a table"),
        ("endpoints = []", "[endpoints]", "is a table"),
        ("[endpoints]\na = 1", "[endpoints.a]", "is a table"),
        ("[stream]\nlifetme = 1", "[stream]", "unknown setting 'lifetme'; known: input_end,"),
        ("[stream]\nlifetime = 0", "[stream] lifetime", "it is more than 0"),
        ("[stream]\nlifetime = inf", "[stream] lifetime", "and has an end"),
        ("[stream]\nlifetime = nan", "[stream] lifetime", "it is more than 0"),
        ('[stream]\nlifetime = "1"', "[stream] lifetime", "it is of type float, not '1'"),
        ("[stream]\npings_unanswered = -1", "[stream] pings_unanswered", "it is more than 0"),
        ("[stream]\npings_unanswered = 1.5", "[stream] pings_unanswered", "of type int, not 1.5"),
        ('[stream]\ninput_end = "shut"', "[stream] input_end", "one of 'close', 'drain', not"),
        ('[stream]\nnormal_close = true', "[stream] normal_close", "one of 'error', 'end', not"),
        ("[stream]\nlow_water = 262145", "[stream]", "low_water is at most high_water"),
        (f"[stream]\nmax_part = {MAX_PART_BYTES + 1}", "[stream]", "max_part is at most 16777216"),
        ("[endpoints.a]\nlifetime = 1", "[endpoints.a]", "url is missing"),
        ("[endpoints.a]\nurl = 1", "[endpoints.a]", "url is missing"),
        ('[endpoints.a]\nurl = "a:1"', "[endpoints.a]", "it begins with http://"),
        ('[endpoints.a]\nurl = "http://a:99999"', "[endpoints.a]", "Port out of range"),
        ('[endpoints.a]\nurl = "http://a"\nx = 1', "[endpoints.a]", "unknown setting 'x'"),
        ('[endpoints.a]\nurl = "http://a"\nmax_part = 0', "[endpoints.a] max_part", "more than 0"),
        ('[endpoints.a-]\nurl = "http://a"', "[endpoints.a-]", "up to 63 letters"),
        (f'[endpoints.{"a" * 64}]\nurl = "http://a"', "[endpoints.aaa", "up to 63 letters"),
        ("port = ", "", "not TOML: "),
        ("port = 1\nport = 2", "", "not TOML: "),
    ],
)  # fmt: skip
def test_a_wrong_value_in_the_file_is_named_with_its_place(toml, text, place, what):
    config = toml(text)
    message = wrong({}, {}, config)
    assert message.startswith(f"{config}: {place}")
    assert what in message


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("PARTWAY_PORT", "http", "it is of type int, not 'http'"),
        ("PARTWAY_PORT", "", "it is of type int, not ''"),
        ("PARTWAY_PORT", "65536", "it is from 0 to 65535, not 65536"),
        ("PARTWAY_INSECURE", "yes", "it is of type bool, not 'yes'"),
        ("PARTWAY_SHUTDOWN_GRACE", "15s", "it is of type float, not '15s'"),
        ("PARTWAY_SHUTDOWN_GRACE", "nan", "it is from 0 to 86400, not nan"),
        ("PARTWAY_LOG_LEVEL", "INFO", "it is one of 'debug', 'info', 'warning', 'error', not"),
        ("PARTWAY_AUTH", "basic", "it is one of 'none', 'sigv4', not 'basic'"),
    ],
)
def test_a_wrong_value_in_the_environment_is_named_with_its_variable(name, text, what):
    message = wrong({}, {name: text})
    assert message.startswith(f"{name}: ")
    assert what in message


@pytest.mark.parametrize(
    ("flags", "place", "what"),
    [
        ({"port": 70_000}, "--port", "it is from 0 to 65535, not 70000"),
        ({"endpoints": ["echo"]}, "--endpoint echo", "it is NAME=URL, as in echo=http://"),
        ({"endpoints": ["echo="]}, "--endpoint echo", "it begins with http://"),
        ({"endpoints": ["=http://a"]}, "--endpoint ", "a name is up to 63 letters"),
        ({"endpoints": ["a=ok:1"]}, "--endpoint a", "'ok:1' is not a container's URL"),
        ({"endpoints": ["a=http://h/p"]}, "--endpoint a", "more than host and port"),
        ({"endpoints": ["a b=http://h"]}, "--endpoint a b", "a name is up to 63 letters"),
    ],
)
def test_a_wrong_flag_is_named(flags, place, what):
    message = wrong(flags, {})
    assert message.startswith(place)
    assert what in message


def test_a_wrong_value_counts_even_where_a_better_source_has_a_right_one(toml):
    """A mistake that shows only once the flag is left out would surprise somebody later."""
    assert "port" in wrong({"port": 1}, {}, toml('port = "x"'))
    assert "PARTWAY_PORT" in wrong({"port": 1}, {"PARTWAY_PORT": "x"})


def test_a_file_that_cannot_be_read(tmp_path):
    missing = tmp_path / "missing.toml"
    assert wrong({}, {}, missing) == f"{missing}: cannot be read: No such file or directory"
    assert "cannot be read" in wrong({}, {}, tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    assert wrong({}, {}, binary).startswith(f"{binary}: not TOML: ")


# --- Beyond loopback -----------------------------------------------------------------------------

LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "localhost", "0:0:0:0:0:0:0:1"]
BEYOND = [
    "0.0.0.0", "::", "", "10.0.0.1", "192.168.1.2", "fe80::1", "gateway.example", "localhost.evil",
    "127.0.0.1.nip.io", "[::1]", "127.1", "2130706433", "128.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_listened_on(host):
    assert is_loopback(host)
    assert load({"host": host}, {}).host == host


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_loopback_only_if_that_is_meant(toml, host):
    assert not is_loopback(host)
    for flags, environment, config in (
        ({"host": host}, {}, None),
        ({}, {"PARTWAY_HOST": host}, None),
        ({}, {}, toml(f'host = "{host}"')),
    ):
        message = wrong(flags, environment, config)
        assert message.startswith(f"listening on {host} without authentication")
        assert "--insecure" in message
        assert "127.0.0.1" in message
        assert load({**flags, "insecure": True}, environment, config).host == host
