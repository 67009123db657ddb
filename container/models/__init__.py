"""The models that ship with the runtime, by name."""

from __future__ import annotations

from collections.abc import Mapping

#: What ``--model`` can name besides ``module:Class``: names for it, so that each is imported only
#: when it is asked for.
MODELS: Mapping[str, str] = {
    "echo": "partway.container.models.echo:Echo",
    "kmeans": "partway.container.models.kmeans:KMeans",
    "linear": "partway.container.models.linear:Linear",
    "pca": "partway.container.models.pca:PCA",
    "speech": "partway.container.models.speech:Speech",
    "text": "partway.container.models.text.model:Text",
}
