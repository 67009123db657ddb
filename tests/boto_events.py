"""Events of InvokeEndpointWithResponseStream, as botocore reads them by AWS's own model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from botocore.eventstream import EventStream
from botocore.exceptions import EventStreamError
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import ResponseParserFactory

__all__ = ["OPERATION", "BotoEvents", "EventStreamError", "operation_model"]

OPERATION = "InvokeEndpointWithResponseStream"


@cache
def operation_model() -> OperationModel:
    """The operation's shapes."""
    model = Loader().load_service_model("sagemaker-runtime", "service-2")
    return ServiceModel(model, "sagemaker-runtime").operation_model(OPERATION)


class _Body:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def stream(self) -> Iterator[bytes]:
        yield from self._pieces

    def close(self) -> None:
        """Nothing is open."""


class BotoEvents(EventStream):  # type: ignore[misc]  # botocore has no types
    """A response's events.

    Args:
        pieces: the response's body, cut anywhere.

    Raises:
        EventStreamError: on the way, for an exception event.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        model = operation_model()
        shape: Any = model.get_event_stream_output()
        parser = ResponseParserFactory().create_parser("rest-json")._event_stream_parser
        super().__init__(_Body(pieces), shape, parser, OPERATION)
