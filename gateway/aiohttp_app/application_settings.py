"""The settings of a gateway in an application: those of ``partway serve``, less the server's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import TOP_LEVEL, Settings, load

_LISTENS: Final = "the application's server listens, and counts connections"
_HAS_TLS: Final = "the application's server has the certificate"
_LOGS: Final = "the application configures its log"

#: Settings that belong to the application's server or log, and why.
_OF_OTHERS: Final[Mapping[str, str]] = {
    "host": _LISTENS,
    "port": _LISTENS,
    "workers": "the application's server has the processes",
    "max_connections": _LISTENS,
    "max_connections_per_address": _LISTENS,
    "max_streams_per_connection": "the application's server has no HTTP/2",
    "tls_port": _HAS_TLS,
    "tls_cert": _HAS_TLS,
    "tls_key": _HAS_TLS,
    "tls_names": _HAS_TLS,
    "log_level": _LOGS,
    "log_format": _LOGS,
}

_DEFAULTS: Final = {each.name: each.default for each in fields(Settings)}


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """The settings of a gateway that has no server of its own.

    Attributes:
        config: the file that they were read from, which no caller of the API may name; None
            without one.

    Raises:
        SettingsError: a setting of the server is set.
    """

    gateway: Settings
    config: Path | None = None

    def __post_init__(self) -> None:
        faults = [
            f"{name}: {value!r} was given; it must be left out, since {why}"
            for name, why in _OF_OTHERS.items()
            if (value := getattr(self.gateway, name)) != _DEFAULTS[name]
        ]
        if faults:
            raise SettingsError("\n".join(faults))


def load_settings(
    config: str | os.PathLike[str] | None = None, **settings: Any
) -> ApplicationSettings:
    """Read the settings of a gateway, as ``partway serve`` does.

    Args:
        config: a TOML file; None for none.
        settings: settings of the whole gateway by their names. They take precedence over variables
            such as ``PARTWAY_AUTH``, and variables over the file. ``endpoints`` are ``NAME=URL``
            strings.

    Raises:
        SettingsError: a setting is wrong; the message says which, and where.
    """
    for name in settings:
        if name not in TOP_LEVEL and name != "endpoints":
            raise SettingsError(
                f"{name}: there is no such setting; it must be endpoints, or one of "
                f"{', '.join(sorted(TOP_LEVEL.keys() - _OF_OTHERS.keys()))}"
            )
    path = None if config is None else Path(config)
    flags = {name: _as_toml(value) for name, value in settings.items()}
    return ApplicationSettings(load(flags, os.environ, path), path)


def _as_toml(value: Any) -> Any:
    """Convert a value of Python's to TOML's type."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return value
