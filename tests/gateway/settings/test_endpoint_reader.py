"""partway.gateway.settings.endpoint_reader: what tables come to, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Discovered,
    Endpoint,
    Image,
    InstanceTimes,
    OneContainer,
    Program,
    Variant,
)
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import load
from partway.gateway.tls.trust import Trust


@pytest.fixture
def endpoint(tmp_path: Path):
    """Reads the endpoint ``a`` of a file."""

    def read(text: str, **environment: str) -> Endpoint:
        path = tmp_path / "partway.toml"
        path.write_text(text, "utf-8")
        (found,) = load({}, environment, path).endpoints
        assert found.name == "a"
        return found

    return read


@pytest.fixture
def variant(endpoint):
    """Reads the only variant of the endpoint ``a``, by the lines of its table."""

    def read(text: str, before: str = "") -> Variant:
        (found,) = endpoint(f"{before}\n[endpoints.a]\n{text}").variants
        return found

    return read


SEVERAL = """\
environment = { A = "1", B = "1" }
execution = "direct"
instances = 2

[[endpoints.a.containers]]
hostname = "pre"
command = "serve"
model_data = "m"
environment = { B = "2" }

[[endpoints.a.containers]]
url = "http://h:1"
"""


def test_several_containers(variant, tmp_path):
    pre = OneContainer(
        hostname="pre",
        source=Program(("serve",), tmp_path),
        model_data=str(tmp_path / "m"),
        environment=(("A", "1"), ("B", "2")),
    )
    other = OneContainer(hostname="container-2", source=Attached((Address("h", 1),)))
    assert variant(SEVERAL) == Variant(source=Containers((pre, other), "direct"), instances=2)


def test_several_containers_of_a_variant(endpoint):
    one, other = endpoint(
        '[endpoints.a.variants.b]\nimage = "x"\n[[endpoints.a.variants.c.containers]]\n'
        'image = "y"\n[[endpoints.a.variants.c.containers]]\nimage = "z"\n'
    ).variants
    assert one.containers == ()
    assert [(each.hostname, each.source) for each in other.containers] == [
        ("container-1", Image("y")), ("container-2", Image("z"))
    ]  # fmt: skip
    assert other.source.execution == "serial"


@pytest.fixture
def refused(endpoint, tmp_path):
    """What is said of a file, without the file's name."""

    def read(text: str) -> str:
        with pytest.raises(SettingsError) as caught:
            endpoint(text)
        return str(caught.value).replace(f"{tmp_path / 'partway.toml'}: ", "")

    return read


# --- Instances that are discovered ----------------------------------------------------------------

CLUSTER = '[cluster]\nserver = "http://127.0.0.1:1"\n'


@pytest.mark.parametrize(
    ("port", "read"), [("", None), ("service_port = 80", 80), ('service_port = "http"', "http")]
)
def test_the_pods_of_a_service(variant, port, read):
    found = variant(f'service = "models/chat"\n{port}', CLUSTER)
    assert found.source == Discovered("models/chat", read)
    assert found.launched == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('service = "Chat"', "endpoints.a.service: 'Chat' was given; it must be the name of a "),
        ('service = "a/b/c"', "endpoints.a.service: 'a/b/c' was given; it must be the name of a "),
        ('service = "a"\nservice_port = 0', "endpoints.a.service_port: 0 was given; it must be a "),
        ('service = "a"\nservice_port = "80"', "endpoints.a.service_port: '80' was given; it must"),
        ('service = "a"\nservice_port = true', "endpoints.a.service_port: true was given; it must"),
    ],
)
def test_a_service_or_a_port_that_none_has(refused, text, said):
    assert refused(f"{CLUSTER}\n[endpoints.a]\n{text}").startswith(said)


def test_a_service_needs_a_cluster(refused, endpoint):
    text = '[endpoints.a]\nservice = "chat"'
    assert refused(text).startswith("endpoints.a: no API server is known: ")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert endpoint(text, **pod).is_discovered


@pytest.mark.parametrize("what", ["endpoints = true", 'gateways = "gateways"'])
def test_what_else_is_read_needs_a_cluster(refused, what):
    assert refused(f"[cluster]\n{what}\n{A}\nurl = 'http://h:1'").startswith(
        "cluster: no API server is known: "
    )


def test_paths_of_the_cluster_begin_at_the_files_folder(tmp_path):
    path = tmp_path / "partway.toml"
    path.write_text(f'{CLUSTER}token_file = "token"\nca_file = "/ca"\n', "utf-8")
    cluster = load({}, {}, path).cluster
    assert cluster is not None
    assert (cluster.token_file, cluster.ca_file) == (tmp_path / "token", Path("/ca"))


# --- What runs it --------------------------------------------------------------------------------


def test_containers_that_run(variant):
    assert variant('url = "http://h:1"') == Variant(source=Attached((Address("h", 1),)))
    assert variant('urls = ["http://h:1", "http://h:2"]') == Variant(
        source=Attached((Address("h", 1), Address("h", 2))), instances=2
    )
    assert variant('urls = ["https://h", "https://i"]').source == Attached(
        (Address("h", 443), Address("i", 443)), Trust()
    )


def test_a_command(variant, tmp_path):
    """It runs in the file's folder, where its own path begins too."""
    for command in ("\"serve --name 'a b'\"", '["serve", "--name", "a b"]'):
        assert variant(f"command = {command}") == Variant(
            source=Program(("serve", "--name", "a b"), tmp_path)
        )
    assert variant('command = "./serve ./x"').source == Program(
        (str(tmp_path / "serve"), "./x"), tmp_path
    )
    assert variant('command = "./serve"\ncwd = "run"').source == Program(
        (str(tmp_path / "serve"),), tmp_path / "run"
    )
    assert variant('command = "serve"\ncwd = "/run"').source.cwd == Path("/run")


def test_an_image(variant, tmp_path):
    assert variant('image = "chat:1"').source == Image("chat:1")
    assert variant('image = "chat:1"\npull = "never"').source == Image("chat:1", "never")
    shipped = variant('image = "echo"\npull = "never"').source
    assert shipped.command[0] == sys.executable
    assert variant('image = "docker://echo"').source == Image("echo")
    assert variant('image = "chat:1"', '[images]\n"chat:1" = "./chat serve"').source == Program(
        (str(tmp_path / "chat"), "serve"), tmp_path
    )


def test_everything_that_an_instance_may_have(variant, tmp_path):
    written = """
        image = "chat:1"
        variant = "B"
        instances = 3
        model_data = "data/model.tar.gz"
        environment = { LANGUAGE = "en", A = "" }
        gpus = 2
        cpus = 1.5
        memory = "2GiB"
        container_hostname = "chat"
        startup_timeout = 1
        health_ping_interval = 2
        health_ping_timeout = 3
        health_pings_missed = 4
        instance_drain_timeout = 5
        stop_timeout = 6
    """
    assert variant(written) == Variant(
        source=Image("chat:1"),
        name="B",
        instances=3,
        model_data=str(tmp_path / "data" / "model.tar.gz"),
        environment=(("A", ""), ("LANGUAGE", "en")),
        gpus=2,
        cpus=1.5,
        memory=2 << 30,
        container_hostname="chat",
        times=InstanceTimes(
            startup_timeout=1.0,
            ping_interval=2.0,
            ping_timeout=3.0,
            pings_missed=4,
            drain_timeout=5.0,
            stop_timeout=6.0,
        ),
    )


@pytest.mark.parametrize("data", ["s3://bucket", "s3://bucket/models/chat.tar.gz", "/data/model"])
def test_model_data_elsewhere(variant, data):
    assert variant(f'command = "a"\nmodel_data = "{data}"').model_data == data


def test_times_come_from_the_nearest(endpoint):
    text = """
        [instance]
        stop_timeout = 1
        startup_timeout = 2
        health_ping_timeout = 3
        [endpoints.a]
        stop_timeout = 4
        command = "a"
    """
    times = endpoint(text, PARTWAY_STOP_TIMEOUT="5", PARTWAY_STARTUP_TIMEOUT="6").variants[0].times
    assert times == InstanceTimes(stop_timeout=4.0, startup_timeout=6.0, ping_timeout=3.0)


def test_containers_of_vertex_ai(variant, endpoint):
    lines = 'platform = "vertex"\npredict_route = "/p"\nhealth_route = "/h"\n'
    found = variant(f'image = "a"\nport = 8501\n{lines}', "[instance]\nhealth_pings_missed = 7")
    assert found.vertex == VertexContainer("/h", "/p", 8501)
    assert (found.times.ping_timeout, found.times.pings_missed) == (10.0, 4)
    assert variant(f'url = "http://h:1"\n{lines}').vertex == VertexContainer("/h", "/p")
    assert variant('command = "a"\nplatform = "vertex"').vertex == VertexContainer()
    assert variant(f'command = "a"\nhealth_pings_missed = 2\n{lines}').times.pings_missed == 2
    assert variant('command = "a"\nplatform = "sagemaker"').vertex is None
    (several,) = endpoint(
        '[[endpoints.a.containers]]\ncommand = "a"\n[[endpoints.a.containers]]\n'
        f'command = "b"\n{lines}'
    ).variants
    assert [each.vertex for each in several.containers] == [None, VertexContainer("/h", "/p")]
    assert (several.times.ping_timeout, several.times.pings_missed) == (2.0, 3)


# --- Variants ------------------------------------------------------------------------------------


def test_variants_have_what_their_endpoint_has_and_their_own(endpoint, tmp_path):
    found = endpoint(
        """
        [endpoints.a]
        lifetime = 60
        instances = 2
        stop_timeout = 1
        environment = { X = "of all", Y = "of all" }
        [endpoints.a.variants.old]
        image = "chat:1"
        weight = 9
        cpus = 1
        [endpoints.a.variants.new]
        command = "chat"
        instances = 1
        environment = { X = "own" }
        """
    )
    times = InstanceTimes(stop_timeout=1.0)
    assert found == Endpoint(
        "a",
        StreamPolicy(lifetime=60.0),
        (
            Variant(
                source=Image("chat:1"),
                name="old",
                instances=2,
                weight=9.0,
                environment=(("X", "of all"), ("Y", "of all")),
                cpus=1.0,
                times=times,
            ),
            Variant(
                source=Program(("chat",), tmp_path),
                name="new",
                environment=(("X", "own"), ("Y", "of all")),
                times=times,
            ),
        ),
    )


def test_variants_of_containers_behind_tls(endpoint, ca):
    found = endpoint(
        f"""
        [endpoints.a]
        ca = "{ca}"
        [endpoints.a.variants.b]
        url = "https://b"
        [endpoints.a.variants.c]
        url = "https://c"
        """
    )
    assert [each.source.tls for each in found.variants] == [Trust(ca), Trust(ca)]


# --- What is refused -----------------------------------------------------------------------------

A = "[endpoints.a]\n"
URL = 'url = "http://h:1"'
CONTAINER = "[[endpoints.a.containers]]\n"
SOURCE = "no key says what to run; set url, urls, command, image, containers or service"
WHY = "since the gateway does not start what runs at a URL"
STARTED = f"it works only with command, image or containers, {WHY}"
ENGINE = "it works only with image, since only a container engine can apply it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (A, f"endpoints.a: {SOURCE}, or one of them in each variant"),
        (A + "[endpoints.a.variants.b]\n", f"endpoints.a.variants.b: {SOURCE}"),
        (
            A + 'url = "http://h:1"\ncommand = "x"',
            "endpoints.a.command: url is given too; set either url or command, not both",
        ),
        (
            A + 'image = "x"\n[endpoints.a.variants.b]\nimage = "y"',
            "endpoints.a.image: variants are given too; set either image or variants, not both",
        ),
        (
            A + 'variant = "x"\n[endpoints.a.variants.b]\nimage = "y"',
            "endpoints.a.variant: variants are given too; set either variant or variants, not both",
        ),
        (
            A + "containers = []",
            ("endpoints.a.containers: an empty array was given; it must be an array of 2 to 15 "
            "tables"),
        ),
        (
            CONTAINER + 'image = "x"\n' + CONTAINER,
            "endpoints.a.containers#2: no key says what to run; set url, command or image",
        ),
        (
            CONTAINER + 'image = "x"\n' + CONTAINER + 'image = "y"\nhostname = "container-1"',
            ("endpoints.a.containers#2.hostname: another container has the host name "
            "'container-1' too; each needs its own"),
        ),
        (
            CONTAINER + 'image = "x"\n' + CONTAINER + f"{URL}\nenvironment = {{ X = 'y' }}",
            ("endpoints.a.containers#2.environment: this key was given with url; it works only "
            f"with command or image, {WHY}"),
        ),
        (
            A + 'model_data = "x"\n' + CONTAINER + 'image = "x"\n' + CONTAINER + 'image = "y"',
            ("endpoints.a.model_data: this key was given with containers; it works only with "
            f"command or image, {WHY}"),
        ),
        (
            A + 'image = "x"\nexecution = "direct"',
            ("endpoints.a.execution: this key was given with image; it works only with containers, "
            "since it says how several containers are called"),
        ),
        (A + "variants = {}", "endpoints.a.variants: 0 variants were given; there must be 1 to 10"),
        (
            A + "".join(f'[endpoints.a.variants.b{n}]\nimage = "x"\n' for n in range(11)),
            "endpoints.a.variants: 11 variants were given; there must be 1 to 10",
        ),
        (
            A + '[endpoints.a.variants.b]\nimage = "x"\nweight = 0',
            "endpoints.a.variants: each variant has weight 0; at least one needs a higher weight",
        ),
        *(
            (
                A + f'{source}\n{key} = {value}',
                f"endpoints.a.{key}: this key was given with {source.split()[0]}; {must}",
            )
            for source in ('url = "http://h:1"', 'urls = ["http://h:1"]')
            for key, value, must in (
                ("instances", "2", STARTED),
                ("model_data", '"x"', f"it works only with command or image, {WHY}"),
                ("environment", '{ X = "y" }', STARTED),
                ("gpus", "1", STARTED),
                ("startup_timeout", "1", STARTED),
                ("stop_timeout", "1", STARTED),
                ("memory", "1", ENGINE),
            )
        ),
        *(
            (
                A + f'command = "x"\n{key} = {value}',
                f"endpoints.a.{key}: this key was given with command; {ENGINE}",
            )
            for key, value in (
                ("cpus", "1"), ("memory", "1"), ("container_hostname", '"x"'), ("pull", '"never"'),
            )
        ),
        *(
            (
                A + f'image = "x"\n{key} = {value}',
                (f'endpoints.a.{key}: this key works only with platform = "vertex", since '
                "SageMaker's contract fixes its value"),
            )
            for key, value in (("health_route", '"/x"'), ("predict_route", '"/x"'), ("port", "80"))
        ),
        (
            A + 'command = "x"\nplatform = "vertex"\nport = 80',
            ("endpoints.a.port: this key was given with command; it works only with image, "
            "since the gateway chooses the port of a command, and a URL names its own"),
        ),
        (
            A + 'command = "x"\nplatform = "vertex"\nenvironment = { AIP_MODE = "x" }',
            ("endpoints.a.environment.AIP_MODE: the gateway sets this variable for Vertex "
            "AI containers; leave it out"),
        ),
        (
            A + 'platform = "vertex"\n' + CONTAINER + 'image = "x"\n' + CONTAINER + 'image = "y"',
            ("endpoints.a.platform: this key was given with containers; it works only with url, "
            "urls, command, image or service, since each of several containers has its own in its "
            "table"),
        ),
        (
            A + 'image = "x"\ncwd = "y"',
            ("endpoints.a.cwd: this key was given with image; it works only with command, since "
            "only a command runs in a folder of this machine"),
        ),
        (
            A + 'image = "x"\nca = "y"',
            ("endpoints.a.ca: this key was given with image; it works only with url or urls, "
            "since it is for containers that are reached over https://"),
        ),
        (
            A + 'cpus = 1\n[endpoints.a.variants.b]\ncommand = "x"',
            f"endpoints.a.cpus: this key was given with command of the variant b; {ENGINE}",
        ),
        (
            A + 'urls = ["http://h:1"]\nca = "y"',
            "endpoints.a.ca: http://h:1 has no TLS; it must be https:// for ca to have an effect",
        ),
        (
            A + 'urls = ["http://h:1", "https://h:2"]',
            "endpoints.a.urls: some URLs are https:// and some http://; all must be of one kind",
        ),
        (
            A + 'urls = ["http://h:1", "http://h:1"]',
            "endpoints.a.urls: one URL is given twice; each must be given once",
        ),
        (
            A + 'command = "x"\nenvironment = { SAGEMAKER_BIND_TO_PORT = "1" }',
            ("endpoints.a.environment.SAGEMAKER_BIND_TO_PORT: the gateway sets this variable to "
            "a container's port; leave it out"),
        ),
        (
            A + 'url = "http://h:1"\nservice_port = 80',
            ("endpoints.a.service_port: this key was given with url; it works only with service, "
            "since it is a port of that Service's pods"),
        ),
        (
            A + 'service = "chat"\ninstances = 2',
            f"endpoints.a.instances: this key was given with service; {STARTED}",
        ),
        (
            A + '[endpoints.a.variants.b]\nservice = "b"\n[endpoints.a.variants.c]\nimage = "c"',
            ("endpoints.a.variants.b.service: all variants must have a service, or none; "
            "without one are: c"),
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together(refused, text, said):
    assert refused(text) == said


def test_each_variant_that_cannot_have_what_its_endpoint_has_is_named(refused):
    lines = refused(
        """
        [endpoints.a]
        pull = "never"
        [endpoints.a.variants.b]
        command = "x"
        [endpoints.a.variants.c]
        command = "x"
        cpus = 1
        """
    ).splitlines()
    assert lines == [
        f"endpoints.a.pull: this key was given with command of the variant b; {ENGINE}",
        f"endpoints.a.pull: this key was given with command of the variant c; {ENGINE}",
        f"endpoints.a.variants.c.cpus: this key was given with command; {ENGINE}",
    ]
