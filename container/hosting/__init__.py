"""Hosts what was not written for this runtime, behind the same contract (section 1.1).

``asgi``, and the modules named after it, run an application on uvicorn, which is an extra:
``pip install 'partway[asgi]'``. ``script`` makes a model of a file with ``model_fn``,
``sklearn_model`` of a file of joblib's, for which scikit-learn is the extra ``sklearn``.
"""

from __future__ import annotations

from typing import Final, Literal

#: Methods of a scikit-learn model that can be called.
Method = Literal["predict", "predict_proba"]
METHODS: Final[tuple[Method, ...]] = ("predict", "predict_proba")
