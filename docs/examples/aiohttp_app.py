"""A web application of aiohttp's with a gateway in it, below /models.

Its argument is a file of the gateway's settings::

    python aiohttp_app.py gateway.toml

docs/how-to/run-inside-aiohttp.md says more.
"""

from __future__ import annotations

import logging
import os
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

import partway.aiohttp

PAGE = Path(__file__).with_name("browser.html")


@web.middleware
async def timed(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Add a Server-Timing header, except to streams: their head is sent before their end."""
    began = time.monotonic()
    response = await handler(request)
    if not response.prepared:
        response.headers["Server-Timing"] = f"app;dur={1000 * (time.monotonic() - began):.0f}"
    return response


async def page(_: web.Request) -> web.FileResponse:
    """The application's own page."""
    return web.FileResponse(PAGE)


def application(config: str) -> web.Application:
    """The application, with the gateway in it."""
    app = web.Application(middlewares=[timed])
    app.router.add_get("/", page)
    partway.aiohttp.setup(app, partway.aiohttp.load_settings(config), prefix="/models")
    return app


def tls() -> ssl.SSLContext | None:
    """Return the application's TLS settings; None without a certificate."""
    if "TLS_CERT" not in os.environ:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(os.environ["TLS_CERT"], os.environ["TLS_KEY"])
    return context


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    port = int(os.environ.get("PORT", "8080"))
    web.run_app(application(sys.argv[1]), host="127.0.0.1", port=port, ssl_context=tls())
