"""What several commands take from the environment."""

from __future__ import annotations

import os


def region() -> str:
    """The region that AWS's tools would take; they pass over a variable that is empty."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
