"""Ask an endpoint with each serializer × deserializer of the SageMaker Python SDK, version 2.

Run by the SDK's interpreter, with the endpoint's name; the gateway is where the environment says.
Prints one JSON object a line for each pair: what was sent, what it was read by, and the clusters
and distances that were found.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
from sagemaker import Predictor, Session
from sagemaker.deserializers import (
    CSVDeserializer,
    JSONDeserializer,
    JSONLinesDeserializer,
    NumpyDeserializer,
    PandasDeserializer,
    RecordDeserializer,
)
from sagemaker.serializers import (
    CSVSerializer,
    JSONLinesSerializer,
    JSONSerializer,
    LibSVMSerializer,
    NumpySerializer,
    RecordSerializer,
)

ROWS = np.array([[1.5, 16.0, 14.0, 23.0], [-2.0, 100.25, 15.25, 9.25]])
OBJECTS = [{"features": row} for row in ROWS.tolist()]
LIBSVM = "".join(
    f"0 {' '.join(f'{key}:{value!r}' for key, value in enumerate(row))}\n" for row in ROWS.tolist()
)

SENT = {
    "CSV": (CSVSerializer, ROWS.tolist()),
    "Pandas": (CSVSerializer, pd.DataFrame(ROWS)),
    "JSON": (JSONSerializer, {"instances": OBJECTS}),
    "JSON Lines": (JSONLinesSerializer, OBJECTS),
    "NumPy": (NumpySerializer, ROWS),
    "Record": (RecordSerializer, ROWS),
    "LibSVM": (LibSVMSerializer, LIBSVM),
}


def of_objects(objects: list[dict[str, float]]) -> list[list[float]]:
    return [[each["closest_cluster"], each["distance_to_cluster"]] for each in objects]


def of_records(records: list) -> list[list[float]]:
    names = ("closest_cluster", "distance_to_cluster")
    return [[each.label[name].float32_tensor.values[0] for name in names] for each in records]


def of_frame(frame: pd.DataFrame) -> list[list[float]]:
    """The SDK takes the first line of CSV for names, which answers do not have."""
    return [[float(each) for each in frame.columns], *frame.to_numpy().tolist()]


READ = {
    "CSV": (CSVDeserializer, lambda rows: [[float(each) for each in row] for row in rows]),
    "Pandas": (PandasDeserializer, of_frame),
    "JSON": (JSONDeserializer, lambda answer: of_objects(answer["predictions"])),
    "JSON Lines": (JSONLinesDeserializer, of_objects),
    "NumPy": (NumpyDeserializer, lambda array: array.tolist()),
    "Record": (RecordDeserializer, of_records),
}


def main(endpoint: str) -> None:
    session = Session(default_bucket="models")
    for sent, (serializer, data) in SENT.items():
        for read, (deserializer, found) in READ.items():
            predictor = Predictor(endpoint, session, serializer(), deserializer())
            answer = found(predictor.predict(data))
            print(json.dumps({"sent": sent, "read": read, "found": answer}))


main(sys.argv[1])
