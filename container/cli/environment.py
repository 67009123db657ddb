"""All variables ``PARTWAY_…`` of a container: of its command and of the shipped models."""

from __future__ import annotations

from typing import Final

from partway.container.cli.target import KINDS
from partway.container.models.chat import settings as chat
from partway.container.models.text import settings as text
from partway.container.models.voice import settings as voice

_OF_THE_COMMAND: Final = frozenset(
    {
        "PARTWAY_BIND_TO_HOST",
        "PARTWAY_FINISH_TIMEOUT",
        "PARTWAY_LOG_FORMAT",
        "PARTWAY_LOG_LEVEL",
        "PARTWAY_METHOD",
        "PARTWAY_SHOW_ERRORS",
        "PARTWAY_UPSTREAM_AUTHORIZATION",
        "PARTWAY_UPSTREAM_HEALTH",
        "PARTWAY_UPSTREAM_PROGRAM",
        "PARTWAY_UPSTREAM_ROUTES",
    }
)

VARIABLES: Final = (
    frozenset(KINDS.values()) | _OF_THE_COMMAND | chat.VARIABLES | text.VARIABLES | voice.VARIABLES
)
