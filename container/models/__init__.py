"""The models that ship with the runtime, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from container.model import Model
from container.models.echo import Echo

#: What ``--model`` can name.
MODELS: Mapping[str, Callable[[], Model]] = {"echo": Echo}
