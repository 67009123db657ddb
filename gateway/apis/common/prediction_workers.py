"""The threads of a gateway that read and write predictions, for all APIs of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.prediction.workers import PredictionWorkers

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


def prediction_workers(gateway: Gateway) -> PredictionWorkers:
    """Make them, by the gateway's settings."""
    settings = gateway.settings
    return PredictionWorkers(settings.max_requests, settings.requests_per_principal)
