"""Answers by a server that speaks OpenAI's API, with the settings of the model ``chat``."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from partway.container.models.chat.settings import ChatSettings
from partway.container.models.chat.upstream import Upstreams
from partway.container.models.openai_events import json_of
from partway.container.models.voice.engines.chat_chunks import deltas_of


class ChatAnswers:
    """Answers by the upstreams of the variables ``PARTWAY_CHAT_…``.

    ``PARTWAY_CHAT_SYSTEM`` begins a conversation that has no instructions.

    Args:
        settings: of the upstreams; by default from the environment.
    """

    def __init__(self, settings: ChatSettings | None = None) -> None:
        self._given = settings

    def load(self, place: Path | None) -> None:
        """Read the settings.

        Raises:
            SettingsRefused: a setting is missing, unknown or out of range.
        """
        self._settings = self._given or ChatSettings.from_environment(os.environ)
        self._upstreams = Upstreams(self._settings)

    def unload(self) -> None:
        """Close the connections; on another thread than the loop's."""
        self._upstreams.close()

    async def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the deltas of an answer; options of the settings give way to these."""
        system = self._settings.system
        if system and not any(each.get("role") == "system" for each in messages[:1]):
            messages = [{"role": "system", "content": system}, *messages]
        body = {
            "model": self._settings.model,
            **self._settings.options,
            **options,
            "messages": list(messages),
            "stream": True,
        }
        async with aclosing(deltas_of(self._upstreams.events(json_of(body)))) as deltas:
            async for delta in deltas:
                yield delta
