"""partway.gateway.settings.settings: where a value comes from, and what is said of a wrong one."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from partway.gateway.apis.manifests import NAMES
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import Endpoint, InstanceTimes, places
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, is_loopback
from partway.gateway.settings.settings import VARIABLES, Settings, changed_policy, load
from partway.gateway.settings.shared_values import InstanceTable
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import Trust
from partway.protocol.limits import MAX_PART_BYTES
from tests.gateway.configuration.documents import as_toml, taken_or_refused, with_any


@pytest.fixture
def toml(tmp_path: Path):
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
    ("workers", 1, "3", "2", 4, 3, 2),
    ("log_level", "info", '"debug"', "warning", "error", "debug", "warning"),
    ("log_format", "text", '"json"', "text", "json", "json", "text"),
    (
        "allow_origins", frozenset(), '["https://a", "https://b"]', "https://c, https://d,",
        ["https://e"], frozenset({"https://a", "https://b"}), frozenset({"https://c", "https://d"}),
    ),
    (
        "apis", NAMES, '["runtime", "openapi"]', "none", ["logs"],
        frozenset({"runtime", "openapi"}), frozenset(),
    ),
    ("insecure", False, "true", "0", True, True, False),
    ("max_streams", 4096, "1", "2", 3, 1, 2),
    ("max_streams_per_connection", 1000, "1", "2", 3, 1, 2),
    ("max_requests", 1024, "1", "2", 3, 1, 2),
    ("max_requests_per_principal", None, "1", "2", 3, 1, 2),
    ("max_invocation_body", 6_291_456, "1", "2KiB", 3, 1, 2048),
    ("max_prediction_body", 1_572_864, "1", "2KiB", 3, 1, 2048),
    ("max_gathered_bytes", 536_870_912, "20000000", "1GiB", 16_000_000, 20_000_000, 1 << 30),
    ("max_connections", 8192, "1", "2", 3, 1, 2),
    ("max_streams_per_principal", None, "1", "2", 3, 1, 2),
    ("max_connections_per_address", None, "1", "2", 3, 1, 2),
    (
        "trusted_proxies", frozenset(), '["10.0.0.0/8", "::1"]', "192.0.2.1, 2001:db8::/32,",
        ["192.0.2.2"], frozenset({"10.0.0.0/8", "::1"}), frozenset({"192.0.2.1", "2001:db8::/32"}),
    ),
    ("tls_port", None, "8443", "0", 443, 8443, 0),
    ("region", "us-east-1", '"eu-west-1"', "ap-south-2", "sa-east-1", "eu-west-1", "ap-south-2"),
    (
        "account", "000000000000", '"111111111111"', "222222222222", "333333333333",
        "111111111111", "222222222222",
    ),
    (
        "endpoint_domain", "localhost", '"models.example"', "a.example", "b.example",
        "models.example", "a.example",
    ),
    ("shutdown_grace", 15.0, "1", "2.5", 0.0, 1.0, 2.5),
    ("shutdown_spread", 5.0, "0.5", "0", 3.0, 0.5, 0.0),
    ("shutdown_hard", 5.0, "1.5", "2", 3.0, 1.5, 2.0),
    ("model_data_quota", 64 << 30, '"2GiB"', "1.5 MiB", 7, 2 << 30, 3 << 19),
    ("max_containers", 2000, "7", "8", 9, 7, 8),
    ("max_async_requests", 5000, "7", "8", 9, 7, 8),
    ("max_transform_jobs", 4, "7", "8", 9, 7, 8),
    ("transform_quota", 64 << 30, '"1GiB"', "2 MiB", 7, 1 << 30, 2 << 20),
    ("async_quota", 8 << 30, '"1GiB"', "2 MiB", 7, 1 << 30, 2 << 20),
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


#: What tables become: they have no variable of their own.
TABLES = {
    "api_environment", "cluster", "endpoints", "images", "inclusive_slices", "local_results",
    "local_roots", "policy", "times", "topics",
}  # fmt: skip


def test_every_setting_is_in_the_table():
    together = {"auth", "container_ca", "principals", "tls_cert", "tls_key", "tls_names"}
    named = {row[0] for row in SOURCES} | together | TABLES | {"data_dir"}
    assert {field.name for field in dataclasses.fields(Settings)} == named


#: Of each setting of streams: a value that is not its default, as text and as it comes to be.
OF_STREAMS = {
    "str": ("drain", "drain"),
    "float": ("7.5", 7.5),
    "int": ("7", 7),
}


@pytest.mark.parametrize("field", dataclasses.fields(StreamPolicy), ids=lambda field: field.name)
def test_each_setting_of_streams_has_its_variable(toml, field):
    """It stands in place of the file's ``[stream]``; what an endpoint has of its own stays."""
    text, value = OF_STREAMS[type(field.default).__name__]
    if field.name in ("normal_close", "signed_end"):
        text = value = {"normal_close": "end", "signed_end": "required"}[field.name]
    elif field.name in ("high_water", "low_water"):
        text, value = "131072", 131_072
    variable = f"PARTWAY_{field.name.upper()}"
    (on_the_line,) = load({"endpoints": ["a=http://127.0.0.1:1"]}, {variable: text}).endpoints
    assert on_the_line.policy == dataclasses.replace(StreamPolicy(), **{field.name: value})
    given = f'"{field.default}"' if isinstance(field.default, str) else field.default
    config = toml(
        f'[stream]\n{field.name} = {given}\n[endpoints.a]\nurl = "http://127.0.0.1:1"\n'
        f'[endpoints.own]\nurl = "http://127.0.0.1:1"\n{field.name} = {given}\n'
    )
    endpoints = {each.name: each.policy for each in load({}, {variable: text}, config).endpoints}
    assert getattr(endpoints["a"], field.name) == value
    assert getattr(endpoints["own"], field.name) == field.default


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_a_port_that_is_kubernetes_link_to_a_service_is_not_given(scheme):
    link = f"{scheme}://10.0.0.11:8090"
    loaded = load({}, {"PARTWAY_PORT": link, "PARTWAY_TLS_PORT": link, "PARTWAY_HOST": "::1"})
    assert (loaded.host, loaded.port, loaded.tls_port) == ("::1", 8090, None)


def test_what_endpoints_of_the_api_have_from_the_file(toml):
    config = toml(
        '[api]\nlocal_roots = ["models", "/srv/models"]\n'
        '[api.topics]\n"arn:aws:sns:us-east-1:000000000000:done" = "https://hooks.example/a"\n'
        "[stream]\nlifetime = 7\n"
        "[instance]\nstop_timeout = 3\n"
    )
    loaded = load({}, {"PARTWAY_STARTUP_TIMEOUT": "5"}, config)
    assert loaded.local_roots == (config.absolute().parent / "models", Path("/srv/models"))
    assert loaded.topics == {"arn:aws:sns:us-east-1:000000000000:done": "https://hooks.example/a"}
    assert loaded.policy == StreamPolicy(lifetime=7)
    assert loaded.times == InstanceTimes(startup_timeout=5, stop_timeout=3)
    assert load({}, {}).local_roots == ()
    assert load({}, {}).topics == {}


def test_what_callers_of_the_api_may_give_to_programs(toml):
    assert load({}, {}).api_environment == ("SAGEMAKER_*",)
    assert not load({}, {}).inclusive_slices
    assert load({}, {}, toml("[api]\ninclusive_slices = true\n")).inclusive_slices
    config = toml('[api]\nenvironment = ["TOKEN", "LD_*"]\n')
    assert load({}, {}, config).api_environment == ("TOKEN", "LD_*")
    assert load({}, {}, toml("[api]\nenvironment = []\n")).api_environment == ()


def test_no_two_settings_have_the_same_variable():
    of_all = {field.name for field in dataclasses.fields(Settings)} - TABLES
    of_streams = {field.name for field in dataclasses.fields(StreamPolicy)}
    of_instances = {field.name for field in dataclasses.fields(InstanceTable)}
    names = [*of_all, *of_streams, *of_instances]
    assert len(set(names)) == len(names)
    assert {f"PARTWAY_{name.upper()}" for name in names} == VARIABLES


@pytest.mark.parametrize(
    ("text", "environment", "why"),
    [
        ("", {"PARTWAY_LIFETIME": "long"},
         "PARTWAY_LIFETIME: 'long' was given; it must be a finite number of seconds above 0"),
        ("", {"PARTWAY_INPUT_END": "never"},
         "PARTWAY_INPUT_END: 'never' was given; it must be '"),
        ("", {"PARTWAY_HIGH_WATER": "1024"},
         "PARTWAY_HIGH_WATER: stream.low_water: 65536 was given; it must be at most"),
        ("", {"PARTWAY_HIGH_WATER": "1", "PARTWAY_LOW_WATER": "2"},
         "PARTWAY_HIGH_WATER, PARTWAY_LOW_WATER: stream.low_water: 2 was given; it must be"),
        ("[endpoints.own]\nurl = 'http://h:1'\nhigh_water = 70000", {"PARTWAY_LOW_WATER": "80000"},
         "PARTWAY_LOW_WATER: endpoints.own.low_water: 80000 was given; it must be at most"),
    ],
)  # fmt: skip
def test_a_variable_of_streams_that_is_wrong(toml, text, environment, why):
    assert wrong({}, environment, toml(text)).startswith(why)


def test_a_variable_may_mend_what_crosses_in_the_file(toml):
    config = toml("[stream]\nlow_water = 300000")
    assert "low_water" in wrong({}, {}, config)
    assert load({}, {"PARTWAY_HIGH_WATER": "300000"}, config).endpoints == ()


def test_signatures_and_their_principals(toml):
    config = toml('auth = "sigv4"\nprincipals = "who.toml"\nhost = "0.0.0.0"')
    loaded = load({}, {}, config)
    assert (loaded.auth, loaded.principals) == ("sigv4", config.with_name("who.toml"))
    assert load({"principals": Path("b")}, {"PARTWAY_PRINCIPALS": "a"}, config).principals == Path(
        "b"
    )


def test_a_certificate_and_its_key(toml):
    config = toml('tls_port = 1\ntls_cert = "c.pem"\ntls_key = "k.pem"')
    loaded = load({}, {"PARTWAY_TLS_KEY": "other.pem"}, config)
    assert (loaded.tls_cert, loaded.tls_key) == (config.with_name("c.pem"), Path("other.pem"))
    assert load({"tls_port": 1}, {"PARTWAY_TLS_NAMES": "a,b"}).tls_names == {"a", "b"}


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"auth": "sigv4"}, "--auth sigv4 needs --principals"),
        (
            {"principals": Path("p")},
            "--principals needs --auth sigv4, but --auth has the value none: add",
        ),
        ({"tls_port": 1, "tls_cert": Path("c")}, "--tls-cert and --tls-key go together"),
        ({"tls_port": 1, "tls_key": Path("k")}, "--tls-cert and --tls-key go together"),
        ({"tls_cert": Path("c"), "tls_key": Path("k")}, "add --tls-port"),
        ({"tls_names": ["a"]}, "add --tls-port"),
        (
            {"region": "US East"},
            "--region: 'US East' was given; it must be an AWS region's name, such as us-east-1",
        ),
        (
            {"account": "12"},
            "--account: '12' was given; it must be the 12 digits of an AWS account",
        ),
        ({"host": "0.0.0.0"}, "add --auth sigv4, or --insecure"),
        (
            {"endpoints": ["echo=http://a:1", "chat=http://b:1", "Echo=http://c:1"]},
            "endpoints echo and Echo: their names differ only in case, so both would have the same",
        ),
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
        Endpoint.attached(
            "a",
            Address("127.0.0.1", 1),
            StreamPolicy(lifetime=60.0, input_end="drain"),
            times=InstanceTimes(),
        ),
        Endpoint.attached(
            "b",
            Address("::1", 2),
            StreamPolicy(lifetime=61.5, input_end="drain", normal_close="end"),
            times=InstanceTimes(),
        ),
    )


@pytest.fixture
def ca(tmp_path):
    return LocalCa(tmp_path / "ca").ensure(["localhost"], datetime.now(UTC)).ca


def test_containers_behind_tls_and_their_roots(toml, ca):
    config = toml(
        f"""
        [endpoints.own]
        url = "https://a"
        ca = "{ca}"
        [endpoints.systems]
        url = "https://b:8443"
        [endpoints.clear]
        url = "http://c:1"
        """
    )
    flags = {"endpoints": ["flagged=https://d"]}

    def trusts(**further):
        loaded = load(flags | further, {}, config)
        return {place.endpoint: place.tls for each in loaded.endpoints for place in places(each)}

    assert trusts() == {
        "own": Trust(ca), "systems": Trust(), "clear": None, "flagged": Trust(),
    }  # fmt: skip
    other = ca.with_name("other.pem")
    other.write_bytes(ca.read_bytes())
    assert trusts(container_ca=other) == {
        "own": Trust(ca), "systems": Trust(other), "clear": None, "flagged": Trust(other),
    }  # fmt: skip
    assert places(load(flags, {"PARTWAY_CONTAINER_CA": str(ca)}).endpoints[0])[0].tls == Trust(ca)
    assert str(places(load(flags, {}).endpoints[0])[0].container) == "d:443"


@pytest.mark.parametrize(
    ("table", "flags", "what"),
    [
        (
            'url = "http://a:1"\nca = "x.pem"',
            {},
            "endpoints.a.ca: http://a:1 has no TLS; it must be https:// for ca to have an effect",
        ),
        (
            'url = "https://a"\nca = "no-such.pem"',
            {},
            "endpoints.a.ca: FOLDER/no-such.pem: cannot be read: No such file or directory",
        ),
        (
            'url = "https://a"',
            {"container_ca": Path("no-such.pem")},
            "container_ca: no-such.pem: cannot be read: No such file or directory",
        ),
    ],
)
def test_roots_that_are_of_no_use(toml, table, flags, what):
    config = toml(f"[endpoints.a]\n{table}")
    assert wrong(flags, {}, config).endswith(what.replace("FOLDER", str(config.parent)))


@pytest.mark.parametrize("flags", [{}, {"endpoints": ["ECHO=http://c:1"]}])
def test_no_two_endpoints_have_the_same_arn(toml, flags):
    other = "" if flags else "[endpoints.ECHO]\nurl = 'http://b:1'\n"
    config = toml(f"[endpoints.echo]\nurl = 'http://a:1'\n{other}")
    assert wrong(flags, {}, config) == (
        "endpoints echo and ECHO: their names differ only in case, so both would have the same "
        "ARN; one of them must have another name"
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
    assert {name: str(places(endpoint)[0].container) for name, endpoint in found.items()} == {
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
    others = {"input_end": "drain", "normal_close": "end", "signed_end": "required"}
    other = others.get(name, 65_536)
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


PORT = "a whole number from 0 to 65535"
SECONDS = "a finite number of seconds from 0 to 86400"
TIMEOUT = "a finite number of seconds above 0"
URL = "an http:// or https:// URL with host and port and no path, such as http://127.0.0.1:8080"
NAME = "1 to 63 letters, digits and hyphens, with a letter or digit at both ends"
LEVELS = "'debug', 'info', 'warning' or 'error'"
MIB_16 = "a whole number of bytes from 1 to 16777216"
GOOD = '[endpoints.a]\nurl = "http://a"\n'


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ('port = "8090"', "port", "the string '8090'", PORT),
        ("port = true", "port", "the boolean true", PORT),
        ("port = 8090.0", "port", "the number 8090.0", PORT),
        ("port = 65536", "port", "65536", PORT),
        ("port = -1", "port", "-1", PORT),
        ("tls_port = 65536", "tls_port", "65536", PORT),
        ("host = 1", "host", "the number 1", "a string"),
        ('region = "x y"', "region", "'x y'", "an AWS region's name, such as us-east-1"),
        ('auth = "basic"', "auth", "'basic'", "'none' or 'sigv4'"),
        ("principals = 1", "principals", "the number 1", "a file's path"),
        ('tls_cert = ""', "tls_cert", "an empty string", "a file's path"),
        ("insecure = 1", "insecure", "the number 1", "true or false"),
        ('log_level = "loud"', "log_level", "'loud'", LEVELS),
        (
            'allow_origins = "https://a"',
            "allow_origins",
            "the string 'https://a'",
            "an array of strings",
        ),
        ("allow_origins = [1]", "allow_origins#1", "the number 1", "a string"),
        ("max_streams = 0", "max_streams", "0", "a whole number of streams from 1 to 1000000"),
        (
            "max_connections = -5",
            "max_connections",
            "-5",
            "a whole number of connections from 1 to 1000000",
        ),
        ("shutdown_grace = -1", "shutdown_grace", "-1", SECONDS),
        ("shutdown_spread = nan", "shutdown_spread", "nan", SECONDS),
        ("shutdown_hard = inf", "shutdown_hard", "inf", SECONDS),
        ("stream = 1", "stream", "the number 1", "a table"),
        ("endpoints = []", "endpoints", "an empty array", "a table"),
        ("[endpoints]\na = 1", "endpoints.a", "the number 1", "a table"),
        ("[stream]\nlifetime = 0", "stream.lifetime", "0", TIMEOUT),
        ("[stream]\nlifetime = inf", "stream.lifetime", "inf", TIMEOUT),
        ("[stream]\nlifetime = nan", "stream.lifetime", "nan", TIMEOUT),
        ('[stream]\nlifetime = "1"', "stream.lifetime", "the string '1'", TIMEOUT),
        (
            "[stream]\npings_unanswered = -1",
            "stream.pings_unanswered",
            "-1",
            "a whole number of pings, 1 or more",
        ),
        (
            "[stream]\nhigh_water = 1.5",
            "stream.high_water",
            "the number 1.5",
            "a whole number of bytes, 1 or more",
        ),
        (
            '[stream]\ninput_end = "shut"',
            "stream.input_end",
            "'shut'",
            "'auto', 'close' or 'drain'",
        ),
        (
            "[stream]\nnormal_close = true",
            "stream.normal_close",
            "the boolean true",
            "'error' or 'end'",
        ),
        (f"[stream]\nmax_part = {MAX_PART_BYTES + 1}", "stream.max_part", "16777217", MIB_16),
        (GOOD + "max_part = 0", "endpoints.a.max_part", "0", MIB_16),
        ("[endpoints.a]\nurl = 1", "endpoints.a.url", "the number 1", URL),
        ('[endpoints.a]\nurl = "a:1"', "endpoints.a.url", "'a:1'", URL),
        ('[endpoints.a]\nurl = "http://a:99999"', "endpoints.a.url", "'http://a:99999'", URL),
        ('[endpoints.a]\nurl = "http://a/path"', "endpoints.a.url", "'http://a/path'", URL),
        (GOOD + 'variant = "-"', "endpoints.a.variant", "'-'", NAME),
        ('[endpoints.a-]\nurl = "http://a"', "endpoints.a-", "the name 'a-'", NAME),
        (
            f'[endpoints.{"a" * 64}]\nurl = "http://a"',
            f"endpoints.'{'a' * 39}…'",
            f"the name '{'a' * 59}…'",
            NAME,
        ),
    ],
)
def test_a_wrong_value_in_the_file_is_named_with_its_place(toml, text, place, found, wanted):
    config = toml(text)
    assert wrong({}, {}, config) == f"{config}: {place}: {found} was given; it must be {wanted}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "prot: this key is unknown; the nearest known one is port"),
        (
            "[stream]\nlifetme = 1",
            "stream.lifetme: this key is unknown; the nearest known one is lifetime",
        ),
        (GOOD + "urll = 1", "endpoints.a.urll: this key is unknown; the nearest known one is url"),
        (
            "[endpoints.a]\nlifetime = 1",
            (
                "endpoints.a: no key says what to run; set url, urls, command, image, "
                "containers or service, or one of them in each variant"
            ),
        ),
        (
            "[stream]\nlow_water = 262145",
            "stream.low_water: 262145 was given; it must be at most high_water, 262144",
        ),
        (
            GOOD + "high_water = 9",
            "endpoints.a.low_water: 65536 was given; it must be at most high_water, 9",
        ),
        ("port = ", "this is not TOML: line 1, at the end: Invalid value"),
        ("port = 1\nport = 2\n", "this is not TOML: line 2, column 9: Cannot overwrite a value"),
    ],
)
def test_what_else_is_said_of_the_file(toml, text, said):
    config = toml(text)
    assert wrong({}, {}, config) == f"{config}: {said}"


def test_each_fault_of_a_file_has_its_line(toml):
    config = toml('[endpoints.a]\nlifetime = 0\nurl = 1\n[stream]\ninput_end = "x"\n[x]\n')
    assert [line.split(": ")[1] for line in wrong({}, {}, config).splitlines()] == [
        "endpoints.a.lifetime", "endpoints.a.url", "stream.input_end", "x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "found", "wanted"),
    [
        ("PARTWAY_PORT", "http", "'http'", PORT),
        ("PARTWAY_PORT", "", "an empty string", PORT),
        ("PARTWAY_PORT", "65536", "65536", PORT),
        ("PARTWAY_TLS_PORT", "x", "'x'", PORT),
        ("PARTWAY_INSECURE", "yes", "'yes'", "true or false"),
        ("PARTWAY_SHUTDOWN_GRACE", "15s", "'15s'", SECONDS),
        ("PARTWAY_SHUTDOWN_GRACE", "nan", "nan", SECONDS),
        ("PARTWAY_LOG_LEVEL", "INFO", "'INFO'", LEVELS),
        ("PARTWAY_AUTH", "basic", "'basic'", "'none' or 'sigv4'"),
        ("PARTWAY_REGION", "x y", "'x y'", "an AWS region's name, such as us-east-1"),
        ("PARTWAY_PRINCIPALS", "", "an empty string", "a file's path"),
    ],
)
def test_a_wrong_value_in_the_environment_is_named_with_its_variable(name, text, found, wanted):
    assert wrong({}, {name: text}) == f"{name}: {found} was given; it must be {wanted}"


@pytest.mark.parametrize(
    ("flags", "place", "found", "wanted"),
    [
        ({"port": 70_000}, "--port", "70000", PORT),
        ({"tls_port": -1}, "--tls-port", "-1", PORT),
    ],
)
def test_a_wrong_flag_is_named(flags, place, found, wanted):
    assert wrong(flags, {}) == f"{place}: {found} was given; it must be {wanted}"


def test_a_policy_that_a_caller_changes():
    base = StreamPolicy(lifetime=5.0)
    assert changed_policy(base, {}, "x") == base
    changed = changed_policy(base, {"max_part": 7, "drain_timeout": 1}, "x")
    assert changed == StreamPolicy(lifetime=5.0, max_part=7, drain_timeout=1.0)
    for table, said in (
        ({"lifetme": 1}, "x: lifetme: this key is unknown; the nearest known one is lifetime"),
        ({"lifetime": "1"}, f"x: lifetime: '1' was given; it must be {TIMEOUT}"),
        ({"high_water": 9}, "x: low_water: 65536 was given; it must be at most high_water, 9"),
    ):
        with pytest.raises(SettingsError) as caught:
            changed_policy(base, table, "x")
        assert str(caught.value) == said


#: But those that go with others, and are refused without them, whoever set them.
KEYS = ["api", "images", "instance", "stream", *(
    {field.name for field in dataclasses.fields(Settings)} - {"tls_cert", "tls_key", "principals"}
)]  # fmt: skip
FLAGS = {"host": "127.0.0.1", "auth": "none", "tls_port": 1}


@settings(deadline=None)
@given(
    with_any({}, sorted(KEYS)),
    with_any(
        {"url": "http://a"},
        [
            *("url", "variant", "lifetime", "max_part", "urls", "command", "image", "instances"),
            *("environment", "memory", "variants", "model_data", "cpus", "ca", "pull"),
        ],
    ),
)
def test_whatever_a_file_says_it_is_taken_or_refused(tmp_path_factory, table, endpoint):
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    endpoints = {"a": endpoint, "b": {"variants": {"c": endpoint}}}
    path.write_text(as_toml({"endpoints": endpoints} | table), "utf-8")
    found = taken_or_refused(lambda: load(FLAGS, {}, path), SettingsError, path)
    assert found is None or isinstance(found, Settings)


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
    assert (
        wrong({}, {}, binary) == f"{binary}: this is not TOML: line 1 has a byte that is not UTF-8"
    )
    with missing.open("wb") as endless:
        endless.truncate(1 << 40)  # it takes up nothing
    assert wrong({}, {}, missing) == f"{missing}: this file must have at most 1048576 bytes"


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


def test_endpoints_of_more_containers_than_there_may_be_are_refused(toml):
    text = """
        max_containers = 3
        [endpoints.a]
        command = "a"
        instances = 4
        [endpoints.attached]
        urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    """
    assert wrong({}, {}, toml(text)) == (
        "the endpoints have 4 containers; max_containers is 3; it must be at least 4"
    )
    assert load({"max_containers": 4}, {}, toml(text)).max_containers == 4
