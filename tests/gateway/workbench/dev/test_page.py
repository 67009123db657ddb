"""workbench.dev.page: one file, nothing from elsewhere, nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest

from partway.gateway.workbench.dev.page import Page, voice_page
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


class Answer:
    """What an operation answers, kept."""

    def respond(self, status, body, headers):
        self.status, self.text, self.headers = status, body.decode(), headers


@pytest.fixture(params=[Page, voice_page])
def answer(request):
    """What one of the pages answers."""

    async def asked(endpoint: str = "model", model: str = "model:Chat") -> Answer:
        kept = Answer()
        await request.param(endpoint, model)(kept, {})
        return kept

    return asked


def directives(page: Answer) -> dict[str, str]:
    policy = page.headers["Content-Security-Policy"]
    return dict(directive.strip().split(" ", 1) for directive in policy.split(";"))


async def test_its_policy_allows_its_own_script_and_style_and_no_others(answer):
    page = await answer()
    allowed = directives(page)
    assert allowed["default-src"] == "'none'"
    assert allowed["connect-src"] == "'self'"
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", page.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        # The page with a microphone makes a URL of its own for the part that runs beside it.
        assert allowed[f"{element}-src"].removesuffix(" blob:") == f"'sha256-{digest}'"
    for directive in ("base-uri", "form-action", "frame-ancestors"):
        assert allowed[directive] == "'none'"
    assert "unsafe" not in page.headers["Content-Security-Policy"]


async def test_it_needs_nothing_from_elsewhere_and_no_inline_handlers(answer):
    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            for name, value in attrs:
                assert not name.startswith("on"), (tag, name)
                assert name not in ("src", "action", "style"), (tag, name)
                assert name != "href" or value in ("data:,", "/", "/voice"), (tag, value)

    page = await answer()
    Tags().feed(page.text)
    assert "//" not in re.sub(r" // .*|  //.*|^// .*", "", page.text, flags=re.MULTILINE)


async def test_nothing_of_the_models_becomes_html(answer):
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
                         (await answer()).text)  # fmt: skip


async def test_names_are_text(answer):
    page = await answer(model="<script>alert(1)</script>\"'")
    assert "<script>alert" not in page.text
    assert page.text.count(html.escape("<script>alert(1)</script>\"'")) == 2
    assert 'data-endpoint="model"' in page.text
    assert "%MODEL%" not in page.text
    assert "%ENDPOINT%" not in page.text


@pytest.mark.parametrize(
    ("method", "status"),
    # A POST there asks for an operation by its name, and what reads asks whether the gateway runs.
    [("GET", 200), ("HEAD", 200), ("POST", 400)],
)
async def test_no_gateway_has_it_unasked(gateway_for, method, status):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(f"{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
    head = await client.read_head()
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"text/html" not in head
