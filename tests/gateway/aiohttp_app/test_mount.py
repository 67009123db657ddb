"""partway.gateway.aiohttp_app.mount: prefixes, and which part of a target is the gateway's."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from partway.gateway.aiohttp_app.mount import Mount, MountedTarget, PrefixError
from partway.protocol.errors import NotFound


async def handler(request):
    raise AssertionError("nobody asks")


@pytest.mark.parametrize(
    "prefix",
    ["models", "/", "/models/", "//models", "/a//b", "/{name}", "/a%20b", "/a b", "/ü", "/..",
     "/a/./b", "/a?b", "/a\n"],
)  # fmt: skip
def test_a_prefix_that_is_none(prefix):
    with pytest.raises(PrefixError, match=r"prefix: '.*' was given; it must be segments") as caught:
        Mount(web.Application(), prefix, handler)
    assert repr(prefix) in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "/models", "/v1/models", "/a.b/..c/~d-e_f"])
def test_a_prefix(prefix):
    app = web.Application()
    mount = Mount(app, prefix, handler)
    assert mount.target_of(make_mocked_request("GET", f"{prefix}/x")).path == "/x"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/models/x", MountedTarget("/x", "/models/x", "")),
        ("/models", MountedTarget("/", "/models", "")),
        ("/models?a=b", MountedTarget("/", "/models", "a=b")),
        ("/models/", MountedTarget("/", "/models/", "")),
        ("/models//x", MountedTarget("//x", "/models//x", "")),
        ("/models/a%2Fb%20c?d=%41&?", MountedTarget("/a%2Fb%20c", "/models/a%2Fb%20c", "d=%41&?")),
        ("http://host:80/models/x?a", MountedTarget("/x", "/models/x", "a")),
    ],
)
def test_a_target_is_parted_as_it_was_sent(target, expected):
    mount = Mount(web.Application(), "/models", handler)
    assert mount.target_of(make_mocked_request("GET", target)) == expected


@pytest.mark.parametrize(
    "target", ["/mod%65ls/x", "/modelsx", "/other", "http://host", "http://host?/models/x"]
)
def test_a_target_that_is_spelt_otherwise_is_nobodys(target):
    mount = Mount(web.Application(), "/models", handler)
    with pytest.raises(NotFound, match="must begin with /models"):
        mount.target_of(make_mocked_request("GET", target))


def test_a_target_in_a_sub_application_has_both_prefixes():
    app, outer = web.Application(), web.Application()
    mount = Mount(app, "/models", handler)
    outer.add_subapp("/ai", app)
    found = mount.target_of(make_mocked_request("GET", "/ai/models/x"))
    assert found == MountedTarget("/x", "/ai/models/x", "")
