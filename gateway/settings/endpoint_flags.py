"""An endpoint of the command line: ``--endpoint NAME=…``."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.configuration.messages import SettingsError, given
from partway.gateway.configuration.reader import checked
from partway.gateway.fleet.endpoint import (
    Attached,
    Endpoint,
    Source,
    Variant,
    container_address,
    is_tls,
)
from partway.gateway.fleet.launchers.images import ENGINE_SCHEME, is_image, resolve_image
from partway.gateway.fleet.processes.commands import command_words, program_of
from partway.gateway.settings.endpoint_context import Surroundings
from partway.gateway.settings.shared_values import Name, is_container_url

_FORMS: Final = (
    "a running container's URL, http://HOST:PORT or https://HOST:PORT; or a command that starts a "
    "container, in quotation marks; or docker://IMAGE"
)

#: The beginning of a value that is meant as a URL, valid or not.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
#: A host and its port, also meant as a URL: no program has such a name.
_HOST_AND_PORT: Final = re.compile(r"[^\s/]+:[0-9]*(/\S*)?")


def endpoint_of_flag(flag: str, around: Surroundings) -> Endpoint:
    """Read an endpoint of the command line.

    Args:
        flag: its name, an equals sign, and its source: a URL, a command, or an engine's image.
        around: values from elsewhere.

    Raises:
        SettingsError: the source or the name is invalid.
    """
    name, found, what = flag.partition("=")
    if not found:
        raise SettingsError(
            f"--endpoint: {given(flag)}; it must be NAME=URL, NAME='COMMAND …' or "
            "NAME=docker://IMAGE, as in echo=http://127.0.0.1:8080"
        )
    checked(Name, name, f"--endpoint {flag}")
    try:
        source = _source(what, around)
    except ValueError as error:
        why = f" ({error})" if str(error) else ""
        raise SettingsError(f"--endpoint {name}: {given(what)}; it must be {_FORMS}{why}") from None
    return Endpoint(name, around.policy, (Variant(source=source, times=around.times),))


def _source(what: str, around: Surroundings) -> Source:
    """Read the source of an endpoint of the command line.

    Raises:
        ValueError: it is invalid; the message says why, or is empty.
    """
    if what.startswith(ENGINE_SCHEME):
        if not is_image(what):
            raise ValueError
        return resolve_image(what, {})
    if _URL.match(what) or _HOST_AND_PORT.fullmatch(what):
        if not is_container_url(what):
            raise ValueError
        tls = around.trust if is_tls(what) else None
        return Attached((container_address(what, tls=True),), tls)
    return program_of(command_words(what))
