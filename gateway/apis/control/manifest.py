"""The control plane's manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partway.gateway.apis.manifest import Manifest
from partway.gateway.settings.caller_permissions import OF_THE_PLATFORM


@dataclass(frozen=True)
class ControlSettings:
    """The table ``[api]``: the parts of this machine that callers of the API may name.

    Attributes:
        local_roots: the folders below which callers may name files.
        local_results: the folders below which callers may have answers stored.
        topics: the webhooks of topics, which get notices of asynchronous requests, by the topics'
            ARNs.
        inclusive_slices: whether slices in filters of transform jobs include their ends.
        api_environment: patterns of the variables that callers may give to programs.
    """

    local_roots: tuple[Path, ...] = ()
    local_results: tuple[Path, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    inclusive_slices: bool = False
    api_environment: tuple[str, ...] = OF_THE_PLATFORM


MANIFEST: Final = Manifest(
    "control", "partway.gateway.apis.control.api", targets=("SageMaker.",), settings=ControlSettings
)
