"""Which endpoints there are: names, and URLs of running containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from partway.gateway.dialling import HTTPS_PORT, Address
from partway.gateway.streams.policy import StreamPolicy
from partway.gateway.tls.trust import Trust
from partway.protocol.errors import InputValidationError
from partway.protocol.limits import MAX_ENDPOINT_NAME, is_name

#: What SageMaker's own tools call an endpoint's only production variant.
DEFAULT_VARIANT = "AllTraffic"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint.

    Attributes:
        name: the name by which clients call the endpoint (clause 4-7).
        container: where the endpoint's container listens.
        tls: whom to believe that the container is who it says; None without TLS.
        policy: what the endpoint's streams may do.
        variant: the one production variant: reported as ``x-amzn-invoked-production-variant``, and
            the only one that ``TargetVariant`` may name.
    """

    name: str
    container: Address
    policy: StreamPolicy
    variant: str = DEFAULT_VARIANT
    tls: Trust | None = None

    @property
    def url(self) -> str:
        """Where the container is, for the operator to read."""
        return f"{'http' if self.tls is None else 'https'}://{self.container}"


class Endpoints:
    """The endpoints of this gateway."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._by_name = {endpoint.name: endpoint for endpoint in endpoints}

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Endpoint:
        """Return the endpoint of a name.

        Raises:
            InputValidationError: no endpoint has the name, or it cannot be a name (4-6, 4-7).
        """
        if not is_name(name):
            raise InputValidationError(
                f"an endpoint's name must be up to {MAX_ENDPOINT_NAME} letters, digits and "
                "hyphens, and neither begin nor end with a hyphen",
                "InvalidEndpointName",
            )
        endpoint = self._by_name.get(name)
        if endpoint is None:
            raise InputValidationError(f"there is no endpoint {name!r}", "EndpointNotFound")
        return endpoint


def is_tls(url: str) -> bool:
    """Whether a container's URL asks for TLS."""
    return urlsplit(url).scheme in ("https", "wss")


def container_address(url: str, *, tls: bool = False) -> Address:
    """Read a container's URL.

    Args:
        url: what was given.
        tls: whether it may be ``https://HOST[:PORT]`` too.

    Raises:
        ValueError: the URL is not ``http://HOST:PORT``; the message says what is wrong.
    """
    parts = urlsplit(url)
    schemes = ("http", "ws", "https", "wss") if tls else ("http", "ws")
    if parts.scheme not in schemes:
        begins = "http:// or https://" if tls else "http://"
        raise ValueError(f"{url!r} is not a container's URL: it must begin with {begins}")
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host: it must be http://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise ValueError(
            f"{url!r} has more than host and port: it must be http://HOST:PORT; "
            "a path comes with each request instead"
        )
    default = HTTPS_PORT if is_tls(url) else 8080
    return Address(parts.hostname, default if parts.port is None else parts.port)
