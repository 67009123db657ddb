"""speech: where speech begins and ends in a stream of audio."""

from container.models.speech.model import Speech

__all__ = ["Speech"]
