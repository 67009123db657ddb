"""StatusPort: /healthz and /metrics of an operator, for probes and Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.operator.operator import Operator


class StatusPort(Collector):
    """A port with two pages, for as long as the operator runs."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._registry = CollectorRegistry()
        ProcessMetrics(self._registry, {})
        self._registry.register(self)
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None)

    async def open(self, host: str, port: int) -> str:
        """Listen, and return the URL, with the real port for port 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        real: int = self._runner.addresses[0][1]
        return f"http://{f'[{host}]' if ':' in host else host}:{real}"

    async def aclose(self) -> None:
        await self._runner.cleanup()

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

    async def _healthz(self, _: web.Request) -> web.Response:
        """Answer 200: a process that does not should be restarted."""
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        page = generate_latest(self._registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})
