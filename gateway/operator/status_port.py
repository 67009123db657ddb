"""StatusPort: /healthz, /readyz and /metrics of an operator, for probes and Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from partway.gateway.access.authentication import Access, NoAuthentication
from partway.gateway.arns import Arns
from partway.gateway.http.connection_admission import Crowd
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.http.listener import Listener
from partway.gateway.http.routes import READING, Operation, Route
from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.operator.limits import STATUS_CLOSE_TIMEOUT, STATUS_CONNECTIONS
from partway.gateway.operator.operator import Operator

_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}


class StatusPort(Collector):
    """A port with three pages, for as long as the operator runs.

    The gateway's own server answers there, with its limits of connections and of a head's time.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._registry = CollectorRegistry()
        ProcessMetrics(self._registry, {})
        self._registry.register(self)
        routes = (
            _route("Healthz", self._healthz),
            _route("Readyz", self._readyz),
            _route("Metrics", self._metrics),
        )
        nobody = Arns("", "")  # no page belongs to an account
        dispatcher = Dispatcher(routes, NoAuthentication(), nobody, frozenset(), lambda _: None)
        self._server = Http1Server(dispatcher)
        crowd = Crowd(STATUS_CONNECTIONS, STATUS_CONNECTIONS // 2, clock=time.monotonic)
        # It refuses HTTP/2, which probes and Prometheus do not speak without TLS.
        self._listener = Listener(self._server, self._server, crowd)

    async def open(self, host: str, port: int) -> str:
        """Listen, and return the URL, with the real port for port 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        _, real = await self._listener.start(host, port)
        return f"http://{f'[{host}]' if ':' in host else host}:{real}"

    async def aclose(self) -> None:
        self._listener.stop()
        await self._server.shutdown(STATUS_CLOSE_TIMEOUT)

    def collect(self) -> Iterable[Metric]:
        copies = self._operator.copies
        yield GaugeMetricFamily(
            "partway_operator_leads",
            "Whether this operator is the one that acts",
            int(self._operator.leadership.is_held),
        )
        yield GaugeMetricFamily(
            "partway_operator_watches_away",
            "Collections of the cluster that cannot be followed now",
            sum(1 for each in copies if each.trouble),
        )
        yield GaugeMetricFamily(
            "partway_operator_silent_gateways",
            "Gateways that do not tell their streams, so that all model pods count as busy",
            self._operator.silent_gateways,
        )

    async def _healthz(self, exchange: Exchange, *_: object) -> None:
        """Answer 200: a process that does not should be restarted."""
        exchange.respond(200, b"ok\n", _TEXT)

    async def _readyz(self, exchange: Exchange, *_: object) -> None:
        """Answer 200 once the operator can act, or stand in for the one that does."""
        lack = self._operator.lack
        exchange.respond(503 if lack else 200, f"{lack or 'ready'}\n".encode(), _TEXT)

    async def _metrics(self, exchange: Exchange, *_: object) -> None:
        page = generate_latest(self._registry)
        exchange.respond(200, page, {"Content-Type": CONTENT_TYPE_LATEST})


def _route(name: str, page: Operation) -> Route:
    path = re.compile(f"/{name.lower()}")
    return Route(name, READING, path, page, Access.ANYONE, reserved=True)
