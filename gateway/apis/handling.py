"""Handling: what becomes of a member of a request."""

from __future__ import annotations

from enum import Enum


class Handling(Enum):
    DONE = "done"
    NO_EFFECT = "accepted without effect"
    REFUSED = "refused"
