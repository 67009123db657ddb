"""scikit-learn models, as written by ``joblib.dump``.

joblib's files are pickles: the author of such a file can run code here. :meth:`SklearnModel.load`
imports scikit-learn and joblib, which are in the extra ``sklearn``.
"""

from __future__ import annotations

import importlib.util
import logging
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partway.container.errors import ModelError
from partway.container.hosting import Method
from partway.container.hosting.sklearn_predictions import PREDICTION_TYPES, encode_predictions
from partway.container.hosting.sklearn_records import SklearnRecords, check_readable, read_records
from partway.container.record_model import RecordModel, told_to_the_client
from partway.log_lines import LogLine
from partway.protocol.limits import LOGGED_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

_log = logging.getLogger("partway.container.hosting")


class SklearnModel(RecordModel):
    """Answers bodies of records by ``predict`` or ``predict_proba``, one at a time.

    Named columns are put into the order of ``feature_names_in_``. A model that was fitted on a
    DataFrame gets a DataFrame, if pandas is installed.

    Args:
        path: the file. A relative path that does not exist in the current folder is looked up in
            the model's folder.
    """

    answer_types = PREDICTION_TYPES

    def __init__(self, path: Path, method: Method = "predict") -> None:
        self._path = path
        self._method = method
        self._predict: Any = None
        self._names: Sequence[str] | None = None
        self._width: int | None = None
        self._takes_frames = False

    def load(self, model_dir: Path) -> None:
        """Read the file.

        Raises:
            RuntimeError: joblib or scikit-learn is missing, or the file cannot be read.
            TypeError: the object in it has no such method.
        """
        path = self._path if self._path.is_file() else model_dir / self._path
        if not path.is_file():
            raise RuntimeError(
                f"there is no file {self._path} in {Path.cwd()} or in the model's folder "
                f"{model_dir}"
            )
        model = _read(path)
        self._predict = getattr(model, self._method, None)
        if not callable(self._predict):
            raise TypeError(
                f"{path} holds a {type(model).__name__}, which has no {self._method}(); it must be "
                "a fitted scikit-learn model with that method"
            )
        names = getattr(model, "feature_names_in_", None)
        self._names = None if names is None else [str(name) for name in names]
        self._width = getattr(model, "n_features_in_", None)
        self._takes_frames = names is not None and importlib.util.find_spec("pandas") is not None
        if names is not None and not self._takes_frames:
            _log.warning(
                LogLine(
                    "the model was fitted on a DataFrame, but pandas is not installed: columns are "
                    "passed by position",
                    file=str(path),
                )
            )
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)

    def check_readable(self, content_type: str) -> None:
        check_readable(content_type)

    def answer_body(self, body: bytes, content_type: str, media_type: str) -> bytes:
        """Answer a body; see :meth:`~.record_model.RecordModel.answer_body`.

        Raises:
            ValueError: the number of predictions is not the number of records.
        """
        with told_to_the_client():
            records = read_records(body, content_type, self._names, self._width)
        data = self._data(records)
        try:
            predictions = self._predict(data)
        except ValueError as error:
            # scikit-learn reports an invalid input like this: NaN, or an unknown category.
            why = textwrap.shorten(str(error), LOGGED_CHARACTERS, placeholder=" …")
            place = records.place_of(str(error))
            at = "" if place is None else f" ({place})"
            raise ModelError(f"the model refuses the records: {why}{at}", status=400) from error
        return encode_predictions(predictions, len(records), media_type)

    def _data(self, records: SklearnRecords) -> Any:
        if self._takes_frames and self._names is not None:
            from pandas import DataFrame

            return DataFrame(records.rows, columns=list(self._names))
        if self._width is None and records.are_texts:
            return [row[0] for row in records.rows]
        return records.array()


def _read(path: Path) -> Any:
    try:
        import joblib
        from sklearn.exceptions import InconsistentVersionWarning
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"a scikit-learn model needs scikit-learn, but {error.name} is not installed: "
            "pip install 'partway[sklearn]'"
        ) from error
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = joblib.load(path)
        except Exception as error:
            raise RuntimeError(
                f"{path} cannot be read: {type(error).__name__}: {error}; it must be a file "
                "that joblib.dump() wrote, and the packages of its classes must be installed"
            ) from error
    versions = {
        (each.message.original_sklearn_version, each.message.current_sklearn_version)
        for each in caught
        if isinstance(each.message, InconsistentVersionWarning)
    }
    for fitted, installed in sorted(versions):
        _log.warning(
            LogLine(
                "the model was fitted with another version of scikit-learn: its predictions may "
                "differ; install the same version, or fit it again",
                file=str(path),
                fitted=fitted,
                installed=installed,
            )
        )
    return model
