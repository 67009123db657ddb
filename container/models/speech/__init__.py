"""The model ``speech``: the times at which speech begins and ends in a stream of audio."""

from partway.container.models.speech.model import Speech

__all__ = ["Speech"]
