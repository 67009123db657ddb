"""Answers by a language model in this process, with the settings of the model ``text``."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.text.settings import TextSettings
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.engines.chat_chunks import deltas_of
from partway.container.workers import Workers


class TextAnswers:
    """Answers by the language model in a directory; ``PARTWAY_TEXT_…`` are its settings.

    Attributes:
        pools: the model with the threads that tokenize, for the owner to close and unload.
    """

    def load(self, place: Path | None) -> None:
        """Load the model.

        Raises:
            SettingsRefused: the setting names no directory, or a setting of ``text`` is unknown or
                out of range.
            Exception: any exception of the model ``text``.
        """
        if place is None:
            raise SettingsRefused(
                "PARTWAY_VOICE_ANSWERS is 'text'; it must name the model's directory too, such as "
                "text:/opt/ml/model"
            )
        from partway.container.models.text import model as text

        self._model = text.Text(TextSettings.from_environment(os.environ))
        # The threads that tokenize are started by the loop that uses them.
        tokenizing = EnginePool(self._model, "answering", text.TOKENIZING)
        self._model.workers = cast("Workers", tokenizing)
        self._model.load(place)
        self.pools = (tokenizing,)

    async def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the deltas of an answer.

        Raises:
            ModelError: the model takes no such request, is busy, or fails.
        """
        if (trouble := self._model.engine.trouble) is not None:
            raise ModelError(trouble)
        events = self._model.chat_events({**options, "messages": list(messages)})
        async with aclosing(deltas_of(events)) as deltas:
            async for delta in deltas:
                yield delta
