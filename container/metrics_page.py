"""``GET /metrics``: the runtime's own figures, and the metrics of the model's author."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from partway.container.activity import NO_PAGES
from partway.container.errors import log_failure, reason_of
from partway.container.figures import Figures
from partway.container.limits import METRICS_TIMEOUT
from partway.container.model import Model
from partway.container.serving.exchange import RuntimeExchange
from partway.container.threads import in_thread
from partway.container.workers import JobFigures

METRICS: Final = "/metrics"

_log = logging.getLogger("partway.container.metrics")


class MetricsPage:
    """The page of one model, one scrape at a time; others wait for the same answer.

    The author's collectors may block, so a scrape has a thread and a time limit. The first scrape
    imports prometheus_client.

    Args:
        model: its :attr:`~partway.Model.metrics` are the author's.
        figures: by kind, ``stream`` or ``request``.
        jobs: returns the figures of the model's workers.
    """

    def __init__(
        self, model: Model, figures: Mapping[str, Figures], jobs: Callable[[], JobFigures | None]
    ) -> None:
        self._model = model
        self._figures = figures
        self._jobs = jobs
        self._scrape: asyncio.Future[tuple[bytes, str]] | None = None

    async def answer(self, exchange: RuntimeExchange, *, by_page: bool) -> None:
        """Answer a request for the page.

        Args:
            exchange: the request.
            by_page: whether a web page made a browser send it.
        """
        if by_page:
            exchange.refuse_unread(403, NO_PAGES)
            return
        if exchange.method not in ("GET", "HEAD"):
            exchange.closes = True  # the body is left unread
            exchange.refuse(405, f"the method of {METRICS} must be GET", {"Allow": "GET, HEAD"})
            return
        scrape = self._scrape
        if scrape is None or scrape.done():
            scrape = self._scrape = in_thread(self._text, name="partway-metrics")
        await asyncio.wait((scrape,), timeout=METRICS_TIMEOUT)
        if not scrape.done():
            exchange.refuse(503, f"the metrics have not come within {METRICS_TIMEOUT:g} s")
        elif (error := scrape.exception()) is not None:
            log_failure(_log, "metrics", error)
            exchange.refuse(500, reason_of(error))
        else:
            text, content_type = scrape.result()
            exchange.respond(200, text, {"Content-Type": content_type})

    def _text(self) -> tuple[bytes, str]:
        from partway.container.prometheus_text import CONTENT_TYPE_LATEST, metrics_text

        return metrics_text(self._figures, self._jobs(), self._model.metrics), CONTENT_TYPE_LATEST
