"""Locating a cluster's API server: by settings, or by the pod's own environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from partway.gateway.network.dialling import is_loopback
from partway.gateway.plain_text import cut, safe

#: The folder in which kubelet keeps the files of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Variables by which kubelet tells each pod where the API server is.
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"

#: The namespace if nothing names another one, as for kubectl.
_DEFAULT_NAMESPACE: Final = "default"

_SHOWN: Final = 200


class ClusterNotFound(Exception):
    """No API server can be located; the message says what was found, and what to set."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Where a cluster's API server is, and how to prove to be a client of it.

    Attributes:
        server: the server's URL, without a slash at its end.
        namespace: the namespace of this process.
        token_file: the file of a bearer token, which others may renew; None to send no token.
        ca_file: the roots of the server's certificate, PEM; None for the system's roots.
    """

    server: str
    namespace: str = _DEFAULT_NAMESPACE
    token_file: Path | None = None
    ca_file: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, so that its pods may be, too."""
        return is_loopback(urlsplit(self.server).hostname or "")


def find_cluster(
    server: str = "",
    token_file: Path | None = None,
    ca_file: Path | None = None,
    namespace: str = "",
    *,
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> ClusterSettings:
    """Locate the API server.

    A value that is not given comes from the pod's own service account. The account's files belong
    to the pod's own cluster, so a given ``server`` gets neither its token nor its roots.

    Args:
        account: the folder of the service account's files.

    Raises:
        ClusterNotFound: there is no server, or its URL cannot be used.
    """
    if not namespace:
        namespace = _namespace_of(account)
    if server:
        found = ClusterSettings(_checked(server), namespace, token_file, ca_file)
        if token_file is not None and urlsplit(server).scheme == "http" and not found.is_local:
            raise ClusterNotFound(
                f"server: {cut(safe(server), _SHOWN)!r} was given with a token_file; it must be an "
                "https URL, or a loopback address: others could read the token"
            )
        return found
    host, port = environment.get(_HOST, ""), environment.get(_PORT, "")
    if not host or not port:
        raise ClusterNotFound(
            f"no API server is known: {_HOST} and {_PORT} are not set, so this is no pod; name "
            "one: server in [cluster], or --server"
        )
    host = f"[{host}]" if ":" in host else host
    return ClusterSettings(
        f"https://{host}:{port}",
        namespace,
        token_file or _if_there(account / "token"),
        ca_file or _if_there(account / "ca.crt"),
    )


def _checked(server: str) -> str:
    fault = "it must be a URL such as https://10.0.0.1:6443"
    try:
        parts = urlsplit(server)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # a wrong port is noticed here
    except ValueError:
        is_url = False
    if is_url and (parts.query or parts.fragment or parts.username is not None):
        is_url, fault = False, f"{fault}, without a user, a query or a fragment"
    if not is_url:
        raise ClusterNotFound(f"server: {cut(safe(server), _SHOWN)!r} was given; {fault}")
    return server.rstrip("/")


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None


def _namespace_of(account: Path) -> str:
    try:
        return (account / "namespace").read_text("utf-8").strip() or _DEFAULT_NAMESPACE
    except (OSError, UnicodeDecodeError):
        return _DEFAULT_NAMESPACE
