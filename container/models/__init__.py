"""The shipped models, by name."""

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
