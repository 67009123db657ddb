"""partway.gateway.settings.endpoint_tables: what is said of a value that is not what it must be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import load
from tests.gateway.configuration.documents import as_toml

SECONDS = "a finite number of seconds above 0 and at most 86400"
COMMAND = "a command, as a string or as an array of strings"
IMAGE = "an image's name, such as chat:1 or registry.example/chat:1"
DATA = "the path of a folder or a tar.gz file, or an s3:// URL of one"
SIZE = (
    "a whole number of bytes above 0, or a size in KiB, MiB, GiB or TiB, such as 2GiB; at most "
    "1024TiB"
)
LABEL = "1 to 63 letters, digits and hyphens, with a letter or digit at both ends"
URL = "an http:// or https:// URL with host and port and no path, such as http://127.0.0.1:8080"
VARIABLE = "a variable's name: letters, digits and _, without a digit at its start"


@pytest.fixture
def refused(tmp_path):
    """What is said of a file, without the file's name."""

    def read(text: str) -> str:
        path = tmp_path / "partway.toml"
        path.write_text(text, "utf-8")
        with pytest.raises(SettingsError) as caught:
            load({}, {}, path)
        return str(caught.value).replace(f"{path}: ", "")

    return read


@pytest.mark.parametrize(
    ("key", "value", "found", "wanted"),
    [
        ("urls", "[]", "an empty array", "an array of at least one URL"),
        ("urls", '"http://h"', "the string 'http://h'", "an array of at least one URL"),
        ("command", "1", "the number 1", COMMAND),
        ("command", "[]", "an empty array", f"{COMMAND} (there is no program in it)"),
        ("command", '["", "a"]', "an array of 2", f"{COMMAND} (there is no program in it)"),
        ("command", '"serve \'a"', '"serve \'a"', f"{COMMAND} (No closing quotation)"),
        ("image", '"a b"', "'a b'", IMAGE),
        ("image", '["a"]', "an array of 1", IMAGE),
        ("instances", "0", "0", "a whole number of instances from 1 to 1000"),
        ("instances", '"2"', "the string '2'", "a whole number of instances from 1 to 1000"),
        ("model_data", '""', "an empty string", DATA),
        ("model_data", '"https://h/x"', "'https://h/x'", DATA),
        ("model_data", '"s3://"', "'s3://'", DATA),
        ("gpus", "-1", "-1", "a whole number of GPUs from 0 to 64"),
        ("cpus", "0", "0", "a finite number of CPUs above 0 and at most 1024"),
        ("memory", '"2 GB"', "'2 GB'", SIZE),
        ("memory", '"0GiB"', "0", SIZE),
        ("memory", "true", "the boolean true", SIZE),
        ("memory", "1.5", "the number 1.5", SIZE),
        ("container_hostname", '"a.b"', "'a.b'", LABEL),
        ("pull", '"Always"', "'Always'", "'missing', 'never' or 'always'"),
        ("startup_timeout", "0", "0", SECONDS),
        ("instance_drain_timeout", "inf", "inf", SECONDS),
        (
            *("health_ping_interval", "-1", "-1"),
            "a finite number of seconds from 0 to 86400",
        ),
        ("health_pings_missed", "0", "0", "a whole number of pings from 1 to 1000"),
        ("cwd", '""', "an empty string", "a folder's path"),
        ("variants", "1", "the number 1", "a table"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(refused, key, value, found, wanted):
    said = f"endpoints.a.{key}: {found} was given; it must be {wanted}"
    assert refused(f"[endpoints.a]\n{key} = {value}") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[endpoints.a.variants.b-]",
            f"endpoints.a.variants.b-: the name 'b-' was given; it must be {LABEL}",
        ),
        (
            "[endpoints.a.variants.b]\nwait = 1",
            "endpoints.a.variants.b.wait: this key is unknown; the nearest known one is weight",
        ),
        (
            "[endpoints.a.variants.b]\nweight = -1",
            (
                "endpoints.a.variants.b.weight: -1 was given; it must be a finite number from 0 to "
                "100000"
            ),
        ),
        (
            '[endpoints.a]\nurls = ["http://h", "h"]',
            f"endpoints.a.urls#2: 'h' was given; it must be {URL}",
        ),
        (
            '[endpoints.a]\ncommand = ["a", 1]',
            "endpoints.a.command#2: the number 1 was given; it must be a string",
        ),
        ('[images]\n"a b" = "c"', f"images.'a b': the name 'a b' was given; it must be {IMAGE}"),
        ("[images]\na = 1", f"images.a: the number 1 was given; it must be {COMMAND}"),
        (
            "[instance]\nstop_timeout = 0",
            f"instance.stop_timeout: 0 was given; it must be {SECONDS}",
        ),
    ],
)
def test_so_it_is_in_other_tables(refused, text, said):
    assert refused(text) == said


@pytest.mark.parametrize(
    ("environment", "place", "found", "wanted"),
    [
        ('"TOKEN=geheim"', "", "a string", "a table of strings"),
        ('["geheim"]', "", "an array of 1", "a table of strings"),
        ('{ TOKEN = ["geheim"] }', ".TOKEN", "an array of 1", "a string without zero bytes"),
        ("{ TOKEN = 470815 }", ".TOKEN", "a number", "a string without zero bytes"),
        ('{ TOKEN = "geheim\\u0000" }', ".TOKEN", "a string", "a string without zero bytes"),
        ('{ TOKEN = { a = "geheim" } }', ".TOKEN", "a table", "a string without zero bytes"),
        ('{ "1" = "geheim" }', ".1", "the name '1'", VARIABLE),
    ],
)
def test_no_message_repeats_what_is_in_an_environment(refused, environment, place, found, wanted):
    for table in ("endpoints.a", "endpoints.a.variants.b"):
        said = refused(f"[{table}]\nenvironment = {environment}")
        assert said == f"{table}.environment{place}: {found} was given; it must be {wanted}"


@settings(deadline=None)
@given(
    st.recursive(
        st.sampled_from(["geheim", 47_081_511, 4.7081511, True, ""]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["A", "B c", "", "SAGEMAKER_BIND_TO_PORT"]), inner),
        ),
        max_leaves=6,
    )
)
def test_whatever_an_environment_is(tmp_path_factory, environment):
    path = tmp_path_factory.getbasetemp() / "environment.toml"
    path.write_text(as_toml({"endpoints": {"a": {"image": "a", "environment": environment}}}))
    said = ""
    try:
        load({}, {}, path)
    except SettingsError as error:
        said = str(error)
    assert not any(value in said for value in ("geheim", "47081511", "4.7081511"))


def test_nor_does_what_is_read_show_it_by_accident(tmp_path):
    path = tmp_path / "partway.toml"
    path.write_text('[endpoints.a]\ncommand = "a"\nenvironment = { TOKEN = "geheim" }')
    loaded = load({}, {}, path)
    assert loaded.endpoints[0].variants[0].environment == (("TOKEN", "geheim"),)
    assert "geheim" not in repr(loaded)
