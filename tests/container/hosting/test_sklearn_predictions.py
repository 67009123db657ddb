"""Predictions of a scikit-learn model as bodies."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from partway.container.hosting.sklearn_predictions import PREDICTION_TYPES, encode_predictions

JSON, LINES, CSV, NPY = PREDICTION_TYPES


@pytest.mark.parametrize(
    ("predictions", "values", "csv"),
    [
        (np.array([1, 2]), [1, 2], "1\n2\n"),
        (np.array([0.5, 2]), [0.5, 2.0], "0.5\n2.0\n"),
        (np.array([True, False]), [True, False], "True\nFalse\n"),
        (np.array(["a", 'b,"c']), ["a", 'b,"c'], 'a\n"b,""c"\n'),
        (np.array(["a", "bc"], object), ["a", "bc"], "a\nbc\n"),
        (np.array([[0.25, 0.75], [1, 0]]), [[0.25, 0.75], [1, 0]], "0.25,0.75\n1.0,0.0\n"),
        ([np.array([[0.25, 0.75], [1, 0]])] * 2, [[[0.25, 0.75]] * 2, [[1, 0]] * 2],
         "0.25,0.75,0.25,0.75\n1.0,0.0,1.0,0.0\n"),
    ],
)  # fmt: skip
def test_each_type(predictions, values, csv):
    assert json.loads(encode_predictions(predictions, 2, JSON)) == {"predictions": values}
    lines = encode_predictions(predictions, 2, LINES).splitlines()
    assert [json.loads(line) for line in lines] == values
    assert encode_predictions(predictions, 2, CSV).decode() == csv
    npy = np.load(io.BytesIO(encode_predictions(predictions, 2, NPY)), allow_pickle=False)
    assert npy.tolist() == values


@pytest.mark.parametrize(
    ("predictions", "reason"),
    [
        (np.array(1), r"shape \(\) for 2 records"),
        (np.array([1]), r"shape \(1,\) for 2 records"),
        (np.array([1, np.nan]), "NaN or infinite"),
        (np.array([1j, 2]), "complex128"),
    ],
)
def test_what_is_no_answer(predictions, reason):
    with pytest.raises(ValueError, match=reason):
        encode_predictions(predictions, 2, JSON)
