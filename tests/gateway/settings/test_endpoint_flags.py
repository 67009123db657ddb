"""partway.gateway.settings.endpoint_flags: an endpoint of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import (
    Attached,
    Endpoint,
    Image,
    InstanceTimes,
    Program,
    Variant,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.settings.endpoint_context import Surroundings
from partway.gateway.settings.endpoint_flags import endpoint_of_flag
from partway.gateway.tls.trust import Trust

AROUND = Surroundings(
    StreamPolicy(lifetime=60.0), InstanceTimes(stop_timeout=1.0), Trust(Path("roots.pem"))
)

NAME = "1 to 63 letters, digits and hyphens, with a letter or digit at both ends"
NAME_AND_FORMS = (
    "NAME=URL, NAME='COMMAND …' or NAME=docker://IMAGE, as in echo=http://127.0.0.1:8080"
)
FORMS = (
    "a running container's URL, http://HOST:PORT or https://HOST:PORT; or a command that starts a "
    "container, in quotation marks; or docker://IMAGE"
)


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("http://127.0.0.1:8080", Attached((Address("127.0.0.1", 8080),))),
        ("ws://h:1", Attached((Address("h", 1),))),
        ("https://h", Attached((Address("h", 443),), AROUND.trust)),
        ("serve", Program(("serve",))),
        ("./serve", Program(("./serve",))),
        (
            "python3 -m model --fetch http://h:1/x --name 'a b'",
            Program(("python3", "-m", "model", "--fetch", "http://h:1/x", "--name", "a b")),
        ),
        ("docker://echo", Image("echo")),
        ("docker://h:5000/a/b:1", Image("h:5000/a/b:1")),
    ],
)
def test_what_runs_an_endpoint(what, source):
    assert endpoint_of_flag(f"a={what}", AROUND) == Endpoint(
        "a", AROUND.policy, (Variant(source=source, times=AROUND.times),)
    )


@pytest.mark.parametrize(
    ("flag", "place", "found", "wanted"),
    [
        ("echo", "--endpoint", "'echo'", NAME_AND_FORMS),
        ("echo=", "--endpoint echo", "an empty string", f"{FORMS} (there is no program in it)"),
        ("=http://a", "--endpoint =http://a", "an empty string", NAME),
        ("a b=http://h", "--endpoint a b=http://h", "'a b'", NAME),
        ("a=ok:1", "--endpoint a", "'ok:1'", FORMS),
        ("a=localhost:8080/", "--endpoint a", "'localhost:8080/'", FORMS),
        ("a=http://h/p", "--endpoint a", "'http://h/p'", FORMS),
        ("a=http:/h", "--endpoint a", "'http:/h'", FORMS),
        ("a=ftp://h", "--endpoint a", "'ftp://h'", FORMS),
        ("a=podman://image:1 x", "--endpoint a", "'podman://image:1 x'", FORMS),
        ("a=docker://", "--endpoint a", "'docker://'", FORMS),
        ("a=docker://a b", "--endpoint a", "'docker://a b'", FORMS),
        ("a=serve 'x", "--endpoint a", '"serve \'x"', f"{FORMS} (No closing quotation)"),
    ],
)
def test_what_cannot_run_one_is_told_of_all_that_can(flag, place, found, wanted):
    with pytest.raises(SettingsError) as caught:
        endpoint_of_flag(flag, AROUND)
    assert str(caught.value) == f"{place}: {found} was given; it must be {wanted}"
