"""Hosting of applications, scripts and models not written for this runtime (section 1.1).

``asgi``, and the modules named after it, run an application on uvicorn, which is an extra: ``pip
install 'partway[asgi]'``. ``script`` makes a model of a file with ``model_fn``, and
``sklearn_model`` makes one of a joblib file. The latter needs the extra ``sklearn``.
"""

from __future__ import annotations

from typing import Final, Literal

#: Supported methods of a scikit-learn model.
Method = Literal["predict", "predict_proba"]
METHODS: Final[tuple[Method, ...]] = ("predict", "predict_proba")
