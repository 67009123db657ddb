"""The pages of ``partway dev``: each is one file of HTML, served to browsers on this machine."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib import resources

from partway.gateway.access.authentication import Access
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import READING, Route

#: Placeholders in the file for the endpoint's name and for the model's.
_ENDPOINT, _MODEL = "%ENDPOINT%", "%MODEL%"


class Page:
    """The operation that answers with a page.

    The page has no part from elsewhere. Its policy (CSP) lets the browser run only the page's own
    script, and connect only to the page's own origin.

    Args:
        endpoint: the endpoint's name.
        model: the model's name.
        file: the page's file in this package.
        path: the page's path at the gateway.
        scripts: a further source of scripts, for the policy.
    """

    def __init__(
        self, endpoint: str, model: str, file: str = "page.html", path: str = "/", scripts: str = ""
    ) -> None:
        self._path = path
        text = (resources.files("partway.gateway.workbench.dev") / file).read_text("utf-8")
        allowed = f"'{_hash(text, 'script')}' {scripts}".strip()
        policy = (
            f"default-src 'none'; script-src {allowed}; "
            f"style-src '{_hash(text, 'style')}'; img-src data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        named = text.replace(_ENDPOINT, html.escape(endpoint)).replace(_MODEL, html.escape(model))
        self._content = named.encode()
        self._headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    async def __call__(self, exchange: Exchange, *_: object) -> None:
        exchange.respond(200, self._content, self._headers)

    @property
    def route(self) -> Route:
        """The route of the page, for anyone."""
        return Route("Page", READING, re.compile(re.escape(self._path)), self, Access.ANYONE)


def voice_page(endpoint: str, model: str) -> Page:
    """Return the page with a microphone.

    A part of its script runs beside the page, where sound is made. A browser takes such a part by
    URL alone, and the page makes that URL, a ``blob:``, itself.
    """
    return Page(endpoint, model, "voice.html", "/voice", "blob:")


def _hash(text: str, element: str) -> str:
    """The hash by which the content policy names the file's one ``script`` or ``style``."""
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
