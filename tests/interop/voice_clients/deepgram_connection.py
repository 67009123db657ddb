"""How Deepgram's SDK finds a gateway; run with the client's interpreter."""

from __future__ import annotations

from deepgram import AsyncDeepgramClient
from deepgram.environment import DeepgramClientEnvironment


def client_of(way: str, place: str, more: str) -> AsyncDeepgramClient:
    """Return a client of an endpoint's.

    Args:
        way: ``sagemaker`` for SageMaker's API, with AWS's credentials from the environment, or
            ``websocket``.
        place: the endpoint's name, or a URL that the WebSockets are below.
        more: the region, or a token.
    """
    if way == "sagemaker":
        from deepgram_sagemaker import SageMakerTransportFactory

        factory = SageMakerTransportFactory(endpoint_name=place, region=more)
        return AsyncDeepgramClient(api_key="unused", transport_factory=factory)
    environment = DeepgramClientEnvironment(
        base=place, production=place.replace("http", "ws", 1), agent=place, agent_rest=place
    )
    return AsyncDeepgramClient(api_key=more, environment=environment)
