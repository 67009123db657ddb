"""Settings: flags over environment over TOML over defaults, in one typed tree.

::

    host = "127.0.0.1"
    allow_origins = ["https://chat.example"]

    [stream]                      # of every endpoint
    input_end = "drain"

    [endpoints.echo]
    url = "http://127.0.0.1:8080"
    normal_close = "end"          # of this one
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from partway.gateway.fleet.endpoints import DEFAULT_VARIANT, Endpoint, container_address
from partway.gateway.streams.policy import StreamPolicy
from partway.protocol import limits

_DAY = 86_400

#: Of the numbers at the top level, ends included. uvloop would take a port modulo 65,536.
_RANGES = {
    "port": (0, 65_535),
    "tls_port": (0, 65_535),
    "max_streams": (1, 1_000_000),
    "max_streams_per_connection": (1, 1_000_000),
    "max_connections": (1, 1_000_000),
    "shutdown_grace": (0, _DAY),
    "shutdown_spread": (0, _DAY),
    "shutdown_hard": (0, _DAY),
}


class SettingsError(ValueError):
    """A setting is wrong: which, where it was set, and what it may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Times in seconds.

    Attributes:
        host: to listen on.
        port: to listen on; 0 picks a free one.
        tls_port: to listen on with TLS; None for no such port, 0 picks a free one.
        tls_cert: certificate chain to show there, PEM; None for one of the local CA's.
        tls_key: its key.
        tls_names: further names in the local CA's certificate.
        region: AWS's name of it, as clients are set to and as their signatures say.
        auth: how clients prove who they are.
        principals: file of those who may sign, for ``sigv4``.
        insecure: whether to listen beyond loopback without authentication all the same.
        log_level: of the log on standard error.
        allow_origins: web pages' origins that may open streams; ``*`` for all.
        max_streams: open at once.
        max_streams_per_connection: open at once on one HTTP/2 connection.
        max_connections: open at once.
        shutdown_grace: for streams to end by themselves after SIGTERM.
        shutdown_spread: over which the rest are ended.
        shutdown_hard: for their last bytes.
        endpoints: the endpoints.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    tls_port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_names: frozenset[str] = frozenset()
    region: str = "us-east-1"
    auth: Literal["none", "sigv4"] = "none"
    principals: Path | None = None
    insecure: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    allow_origins: frozenset[str] = frozenset()
    max_streams: int = limits.MAX_STREAMS
    max_streams_per_connection: int = limits.HTTP2_MAX_STREAMS
    max_connections: int = limits.MAX_CONNECTIONS
    shutdown_grace: float = limits.SHUTDOWN_GRACE
    shutdown_spread: float = limits.SHUTDOWN_SPREAD
    shutdown_hard: float = limits.SHUTDOWN_HARD
    endpoints: tuple[Endpoint, ...] = ()

    def check(self) -> None:
        """Refuse what is unsafe, and what does not go together.

        Raises:
            SettingsError: says what, and what to do.
        """
        if self.auth == "none" and not self.insecure and not is_loopback(self.host):
            raise SettingsError(
                f"listening on {self.host} without authentication lets anyone on the network "
                "use the endpoints; add --auth sigv4, or --insecure if that is meant, or listen "
                "on 127.0.0.1"
            )
        if self.auth == "sigv4" and self.principals is None:
            raise SettingsError(
                "--auth sigv4 needs --principals FILE: who may sign, and with which keys"
            )
        if self.auth == "none" and self.principals is not None:
            raise SettingsError("--principals is read with --auth sigv4 only: add that")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("--tls-cert and --tls-key go together: give both, or neither")
        if self.tls_port is None and (self.tls_cert is not None or self.tls_names):
            raise SettingsError("a certificate needs a port: add --tls-port, as in --tls-port 8443")
        if limits.REGION.fullmatch(self.region) is None:
            raise SettingsError(f"region: {self.region!r} is none, as in us-east-1")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None
) -> Settings:
    """Put the tree together.

    Args:
        flags: by setting's name, those given only; ``endpoints`` as ``NAME=URL`` strings.
        environment: ``PARTWAY_HOST`` and so on, lists separated by commas.
        config: a TOML file.

    Raises:
        SettingsError: what is wrong, and where.
    """
    document = _read(config) if config is not None else {}
    stream = _section(document.pop("stream", {}), f"{config}: [stream]")
    tables = _section(document.pop("endpoints", {}), f"{config}: [endpoints]")
    values: dict[str, Any] = {}
    hints = get_type_hints(Settings)
    for name, value in document.items():
        if name not in hints:
            raise SettingsError(f"{config}: unknown setting {name!r}; known: {_known(Settings)}")
        values[name] = _setting(name, value, f"{config}: {name}")
    for name, hint in hints.items():
        variable = f"PARTWAY_{name.upper()}"
        if name != "endpoints" and variable in environment:
            values[name] = _setting(name, _from_text(environment[variable], hint), variable)
    values |= {
        name: _setting(name, value, f"--{name}")
        for name, value in flags.items()
        if name != "endpoints"
    }
    policy = changed_policy(StreamPolicy(), stream, f"{config}: [stream]")
    endpoints = {
        name: _endpoint(name, _section(table, f"{config}: [endpoints.{name}]"), policy, config)
        for name, table in tables.items()
    }
    for text in flags.get("endpoints", ()):
        name, found, url = text.partition("=")
        if not found:
            raise SettingsError(
                f"--endpoint {text}: it is NAME=URL, as in echo=http://127.0.0.1:8080"
            )
        endpoints[name] = _endpoint(name, {"url": url}, policy, None)
    settings = Settings(**values, endpoints=tuple(endpoints.values()))
    settings.check()
    return settings


def _read(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{config}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{config}: not TOML: {error}") from None


def _section(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} is a table")
    return value


def _endpoint(
    name: str, table: dict[str, Any], policy: StreamPolicy, config: Path | None
) -> Endpoint:
    where = f"--endpoint {name}" if config is None else f"{config}: [endpoints.{name}]"
    if not limits.is_name(name):
        raise SettingsError(
            f"{where}: a name is up to {limits.MAX_ENDPOINT_NAME} letters, digits and hyphens"
        )
    table = dict(table)
    url = table.pop("url", None)
    if not isinstance(url, str):
        raise SettingsError(f"{where}: url is missing, as in http://127.0.0.1:8080")
    try:
        address = container_address(url)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    variant = table.pop("variant", DEFAULT_VARIANT)
    if not isinstance(variant, str) or not limits.is_name(variant):
        raise SettingsError(
            f"{where} variant: it is up to {limits.MAX_ENDPOINT_NAME} letters, digits and hyphens"
        )
    return Endpoint(
        name, address, changed_policy(policy, table, where, beside="url, variant, "), variant
    )


def changed_policy(
    base: StreamPolicy, table: dict[str, Any], where: str, beside: str = ""
) -> StreamPolicy:
    """A policy with a table's changes.

    Args:
        base: what is not in the table.
        table: settings by their names.
        where: they stand, for errors.
        beside: names what else may stand in such a table.

    Raises:
        SettingsError: a setting is unknown, or not of its type or in its range.
    """
    hints = get_type_hints(StreamPolicy)
    changes: dict[str, Any] = {}
    for name, value in table.items():
        if name not in hints:
            known = _known(StreamPolicy)
            raise SettingsError(f"{where}: unknown setting {name!r}; known: {beside}{known}")
        changes[name] = _convert(value, hints[name], f"{where} {name}")
        if hints[name] in (int, float) and not 0 < changes[name] < math.inf:  # nan is neither
            raise SettingsError(f"{where} {name}: it is more than 0, and has an end")
    policy = dataclasses.replace(base, **changes)
    if policy.low_water > policy.high_water:
        raise SettingsError(f"{where}: low_water is at most high_water")
    if policy.max_part > limits.MAX_PART_BYTES:
        raise SettingsError(f"{where}: max_part is at most {limits.MAX_PART_BYTES}")
    return policy


def _setting(name: str, value: object, where: str) -> object:
    """A value of the top level, of its type and in its range."""
    converted = _convert(value, get_type_hints(Settings)[name], where)
    if name in _RANGES:
        least, most = _RANGES[name]
        if not least <= converted <= most:  # type: ignore[operator]  # _convert() saw to it
            raise SettingsError(f"{where}: it is from {least} to {most}, not {converted!r}")
    return converted


def _known(tree: type) -> str:
    return ", ".join(field.name for field in dataclasses.fields(tree))


def _required(hint: Any) -> Any:
    """The type of a setting that may also be left out: ``int`` of ``int | None``."""
    if get_origin(hint) is UnionType:
        return next(kind for kind in get_args(hint) if kind is not NoneType)
    return hint


def _from_text(text: str, hint: Any) -> object:
    hint = _required(hint)
    if hint is bool:
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    if get_origin(hint) is frozenset:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _convert(value: object, hint: Any, where: str) -> object:
    """A value as its setting's type; what does not fit is named, never guessed."""
    hint = _required(hint)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            choices = ", ".join(map(repr, get_args(hint)))
            raise SettingsError(f"{where}: it is one of {choices}, not {value!r}")
        return value
    if get_origin(hint) is frozenset:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{where}: it is a list of strings")
        return frozenset(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str) and value:
        return Path(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SettingsError(f"{where}: it is of type {hint.__name__}, not {value!r}")
    return value
