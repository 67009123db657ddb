"""Turn detection by smart-turn: a network that hears whether a sentence is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from partway.container.errors import SettingsRefused
from partway.container.models.voice.engines.energy import EnergyTurns
from partway.container.models.voice.engines.log_mel import log_mel
from partway.container.models.voice.interfaces import HEARING_RATE, Samples

#: The network hears the last 8 s of a turn.
_HEARD: Final = 8 * HEARING_RATE
_COMPLETE: Final = 0.5


class SmartTurn(EnergyTurns):
    """Finds speech by our own detector, and asks smart-turn v3 (ONNX) at each pause."""

    def __init__(self) -> None:
        self._session: Any = None

    def load(self, place: Path | None) -> None:
        """Load the network.

        Raises:
            SettingsRefused: no file is named, or there is none.
        """
        if place is None or not place.is_file():
            raise SettingsRefused(
                f"smart-turn: {place or 'no file'} was given; it must be the network's file, such "
                "as smart-turn-v3.2-cpu.onnx"
            )
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(place), options)

    def is_complete(self, audio: Samples) -> bool:
        return self.probability(audio) > _COMPLETE

    def probability(self, audio: Samples) -> float:
        """Return the probability that a turn is complete."""
        heard = audio[-_HEARD:].astype(np.float32) / 32768
        heard = np.pad(heard, (_HEARD - len(heard), 0))
        heard = (heard - heard.mean()) / np.sqrt(heard.var() + 1e-7)
        (found,) = self._session.run(None, {"input_features": log_mel(heard)[None]})
        return float(found[0, 0])
