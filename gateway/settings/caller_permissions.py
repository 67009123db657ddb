"""Permissions of API callers on this machine: which variables, and which folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from partway.gateway.configuration.expected import text
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.network.dialling import is_loopback
from partway.gateway.storage.files import others_may

#: By default: variables that SageMaker's own containers read, and no command.
OF_THE_PLATFORM: Final = ("SAGEMAKER_*",)

#: Never a * alone: variables that could change a program's command must be listed by name.
Variables = Annotated[
    str,
    text(
        "a variable's name, or the beginning of names with a * after it, such as SAGEMAKER_*",
        re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?").fullmatch,
    ),
]


#: An SNS topic, by botocore's pattern.
Topic = Annotated[
    str,
    text(
        "an SNS topic's ARN, such as arn:aws:sns:us-east-1:000000000000:done",
        re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]*:[0-9]{12}:[a-zA-Z0-9_.-]{1,256}").fullmatch,
    ),
]


def _is_webhook(url: str) -> bool:
    """Say whether notices may be sent to an address: in clear only on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018 (raises if it is invalid)
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not url.isprintable():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


Webhook = Annotated[
    str,
    text("an https:// URL, or an http:// URL on this machine, without a user name", _is_webhook),
]


def check_results(results: Iterable[Path], others: Iterable[Path]) -> None:
    """Refuse folders for answers that overlap with folders the gateway reads or owns.

    Otherwise a caller could have a file written where another caller's inputs are read.

    Args:
        results: folders for answers.
        others: folders that the gateway reads for callers, or owns.

    Raises:
        SettingsError: a folder of one kind lies in one of the other kind.
    """
    for result in results:
        there = result.resolve()
        for other in others:
            place = other.resolve()
            if there.is_relative_to(place) or place.is_relative_to(there):
                raise SettingsError(
                    f"api.local_results: {result}: this folder must be separate from {other}, "
                    "which the gateway reads for callers of the API, or keeps for itself"
                )


def check_roots(roots: Iterable[Path], setting: str = "local_roots") -> None:
    """Refuse folders that other users may write to: they could lead the gateway to other files.

    Args:
        roots: folders in which API callers may name files.
        setting: their name under ``[api]``.

    Raises:
        SettingsError: others may write to one of them.
    """
    for root in roots:
        try:
            mode = root.stat().st_mode
        except OSError:  # no file in it can be named
            continue
        if "write" in others_may(mode):
            raise SettingsError(
                f"api.{setting}: {root}: other users can write to this folder, and could lead the "
                "gateway to other files by a link; let only its owner write: chmod go-w"
            )
