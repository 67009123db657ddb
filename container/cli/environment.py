"""The variables ``PARTWAY_…`` of a container: its command's, and those of models that ship."""

from __future__ import annotations

from typing import Final

from partway.container.cli.target import KINDS
from partway.container.models.text import settings

VARIABLES: Final = frozenset({*KINDS.values(), "PARTWAY_LOG_LEVEL"}) | settings.VARIABLES
