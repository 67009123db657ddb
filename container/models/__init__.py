"""The shipped models and their settings, by name."""

from __future__ import annotations

from collections.abc import Mapping

#: Short names for ``--model``, besides ``module:Class``. They are strings, so that a model is only
#: imported when it is asked for.
MODELS: Mapping[str, str] = {
    "chat": "partway.container.models.chat.model:Chat",
    "echo": "partway.container.models.echo:Echo",
    "kmeans": "partway.container.models.kmeans:KMeans",
    "linear": "partway.container.models.linear:Linear",
    "pca": "partway.container.models.pca:PCA",
    "speech": "partway.container.models.speech:Speech",
    "text": "partway.container.models.text.model:Text",
    "voice": "partway.container.models.voice.model:Voice",
}

#: The settings of those that have some; their variables begin with ``PARTWAY_`` and the name.
SETTINGS: Mapping[str, str] = {
    "chat": "partway.container.models.chat.settings:ChatSettings",
    "text": "partway.container.models.text.settings:TextSettings",
    "voice": "partway.container.models.voice.settings:VoiceSettings",
}
