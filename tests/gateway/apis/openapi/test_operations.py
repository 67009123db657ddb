"""``/openapi.json`` and ``/docs``, over HTTP."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from tests.gateway.apis.prediction.predicting import asking, authenticated
from tests.gateway.conftest import container, gateway_for

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Elements(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


async def test_anyone_has_the_description(asking, authenticated):
    client = await asking(**authenticated)
    for _ in range(2):
        status, headers, said = await client.ask("/openapi.json", method="GET")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        made = json.loads(said)
        assert (made["openapi"], made["info"]["title"]) == ("3.1.0", "Partway")
        assert made["paths"]["/endpoints/{endpoint}/invocations"]["post"]["security"]


async def test_the_page_has_all_of_it_and_runs_nothing(asking):
    client = await asking()
    made = json.loads((await client.ask("/openapi.json", method="GET"))[2])
    for path in ("/docs", "/docs/"):
        status, headers, said = await client.ask(path, method="GET")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script" not in policy
    elements = Elements(said.decode())
    names = {tag for tag, _ in elements.found}
    assert not names & {"script", "link", "img", "iframe", "form", "object"}
    for _, attributes in elements.found:
        assert not {"style", "onclick", "onload"} & attributes.keys()
        assert not attributes.get("href", "#").startswith(("http:", "https:", "//", "javascript"))
    ids = {attributes.get("id") for _, attributes in elements.found}
    anchors = {
        attributes["href"][1:]
        for tag, attributes in elements.found
        if tag == "a" and attributes["href"].startswith("#")
    }
    assert anchors <= ids
    assert "`" not in elements.text, "Markdown of a description is rendered"
    assert "<code>/kubernetes/openapi/v3</code>" in said.decode()
    for path, methods in made["paths"].items():
        assert path in elements.text
        for operation in methods.values():
            assert operation["summary"] in elements.text
            assert operation["x-codeSamples"][0]["source"] in elements.text
            assert operation["operationId"] in ids
