"""Formats of inference, beside SageMaker's SDK and toolkit, and each format's fastest library.

``python -m benchmarks.formats`` prints a table of CPU time, which ``docs/discussion/benchmarks.md``
explains. It needs an interpreter that has the other libraries, too::

    python3 -m venv formats
    formats/bin/pip install . sagemaker==2.257.7 sagemaker-inference pandas pyarrow scikit-learn
    formats/bin/python -m benchmarks.formats

All read the same bytes, and write the same numbers: 100,000 rows of 28. These are float64 in text,
float32 in protobuf, and both in numpy's format. The output is a body of bytes. numpy's format is
also written in pieces, as ``partway-container convert`` writes a file. Each library makes its own
type of a body: arrays, or lists of rows. ``--only json`` measures only the formats with "json" in
their names.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
from sagemaker import deserializers, serializers
from sagemaker.amazon.common import RecordDeserializer, RecordSerializer
from sagemaker_inference import decoder as toolkit_decoder
from sagemaker_inference import encoder as toolkit_encoder
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from partway.protocol.formats import Batch, Tabular, decode, encode, encode_pieces

CSV, LIBSVM, JSON = "text/csv", "text/libsvm", "application/json"
JSON_LINES, NPY = "application/jsonlines", "application/x-npy"
RECORDIO = "application/x-recordio-protobuf"


@dataclass
class Contest:
    """One format, read or written.

    Attributes:
        name: of the format, and whether it is read or written.
        times: a library's name → its shortest time, in seconds.
    """

    name: str
    ours: Callable[[], object]
    others: dict[str, Callable[[], object]]
    times: dict[str, float] = field(default_factory=dict)

    def go(self) -> None:
        """Run each function once; the shortest time of each is kept."""
        for name, do in {"partway": self.ours, **self.others}.items():
            began = time.process_time()
            do()
            taken = time.process_time() - began
            self.times[name] = min(taken, self.times.get(name, taken))


def contests(rows: int) -> list[Contest]:
    numbers = np.random.default_rng(0).normal(size=(rows, 28))
    single, labels = numbers.astype(np.float32), np.zeros((rows, 1))
    batches = {each: Batch(numbers) for each in (CSV, JSON, JSON_LINES)} | {
        RECORDIO: Batch(single, labels.astype(np.float32)),
        LIBSVM: Batch(numbers, labels),
    }
    bodies = {each: encode(batch, each) for each, batch in batches.items()}
    reading, writing = _readers(bodies), _writers(numbers, single)
    wanted = Tabular(width=28, sparse=True)
    found = []
    for name, batch in batches.items():
        body = bodies[name]
        found += [
            Contest(f"{name}, read", lambda body=body, name=name: decode(body, name, wanted),
                    reading[name]),
            Contest(f"{name}, written", lambda batch=batch, name=name: encode(batch, name),
                    writing[name]),
        ]  # fmt: skip
    return [*found, *_of_numpys(numbers), *_of_numpys(single)]


def _of_numpys(numbers: np.ndarray[Any, Any]) -> list[Contest]:
    batch, wanted = Batch(numbers), Tabular(width=28)
    body = encode(batch, NPY)
    deserializer, name = deserializers.NumpyDeserializer(), f"{NPY} of {numbers.dtype}"
    nowhere = Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115 (as long as the command runs)
    readers: dict[str, Callable[[], object]] = {
        "SDK": lambda: deserializer.deserialize(io.BytesIO(body), NPY),
        "toolkit": lambda: toolkit_decoder.decode(body, NPY),
        "numpy": lambda: np.load(io.BytesIO(body)),
        # The least work: to know that all numbers are finite, each must be read.
        "a sum": lambda: np.frombuffer(body, numbers.dtype, offset=body.index(b"\n") + 1).sum(),
    }
    writers: dict[str, Callable[[], object]] = {
        "SDK": lambda: serializers.NumpySerializer().serialize(numbers),
        "toolkit": lambda: toolkit_encoder.encode(numbers, NPY),
    }
    return [
        Contest(f"{name}, read", lambda: decode(body, NPY, wanted), readers),
        Contest(f"{name}, written as one", lambda: encode(batch, NPY), {
            **writers, "numpy": lambda: np.save(io.BytesIO(), numbers),
            # The least work: a body of bytes is a copy.
            "a copy": lambda: b"".join([b"", numbers.data]),
        }),
        Contest(
            f"{name}, written in pieces",
            lambda: nowhere.writelines(encode_pieces(batch, NPY)),
            {key: lambda write=write: nowhere.write(write()) for key, write in writers.items()},
        ),
    ]  # fmt: skip


def _readers(bodies: dict[str, bytes]) -> dict[str, dict[str, Callable[[], object]]]:
    csv = bodies[CSV]
    headless = pyarrow.csv.ReadOptions(autogenerate_column_names=True)

    def sdk(deserializer: Any, name: str) -> Callable[[], object]:
        return lambda: deserializer.deserialize(io.BytesIO(bodies[name]), name)

    return {
        CSV: {
            "SDK": sdk(deserializers.NumpyDeserializer(accept=CSV), CSV),
            "toolkit": lambda: toolkit_decoder.decode(csv.decode(), CSV),
            "pandas": lambda: pd.read_csv(io.BytesIO(csv), header=None).to_numpy(),
            "pyarrow": lambda: np.column_stack([
                each.to_numpy()
                for each in pyarrow.csv.read_csv(io.BytesIO(csv), read_options=headless).columns
            ]),
        },
        LIBSVM: {"scikit-learn": lambda: load_svmlight_file(io.BytesIO(bodies[LIBSVM]))},
        JSON: {
            "SDK": sdk(deserializers.JSONDeserializer(), JSON),
            "orjson": lambda: np.array([
                each["features"] for each in orjson.loads(bodies[JSON])["instances"]
            ]),
        },
        JSON_LINES: {
            "SDK": sdk(deserializers.JSONLinesDeserializer(), JSON_LINES),
            "orjson": lambda: np.array([
                orjson.loads(each)["features"] for each in bodies[JSON_LINES].splitlines()
            ]),
            "pyarrow": lambda: pyarrow.json.read_json(io.BytesIO(bodies[JSON_LINES])),
        },
        RECORDIO: {"SDK": sdk(RecordDeserializer(), RECORDIO)},
    }  # fmt: skip


def _writers(
    numbers: np.ndarray[Any, Any], single: np.ndarray[Any, Any]
) -> dict[str, dict[str, Callable[[], object]]]:
    lists = numbers.tolist()
    objects = [{"features": each} for each in lists]
    arrays = [{"features": each} for each in numbers]
    table = pa.table({str(column): numbers[:, column] for column in range(28)})
    options = pyarrow.csv.WriteOptions(include_header=False)
    as_numpy = orjson.OPT_SERIALIZE_NUMPY
    return {
        CSV: {
            "SDK": lambda: serializers.CSVSerializer().serialize(numbers),
            "toolkit": lambda: toolkit_encoder.encode(numbers, CSV),
            "pandas": lambda: pd.DataFrame(numbers).to_csv(header=False, index=False),
            "pyarrow": lambda: pyarrow.csv.write_csv(table, io.BytesIO(), options),
        },
        LIBSVM: {
            "scikit-learn": lambda: dump_svmlight_file(numbers, np.zeros(len(lists)), io.BytesIO())
        },
        JSON: {
            "SDK": lambda: serializers.JSONSerializer().serialize({"instances": objects}),
            "toolkit": lambda: toolkit_encoder.encode(numbers, JSON),
            "orjson": lambda: orjson.dumps({"instances": arrays}, option=as_numpy),
        },
        JSON_LINES: {
            "SDK": lambda: serializers.JSONLinesSerializer().serialize(objects),
            "orjson": lambda: b"\n".join([orjson.dumps(each, option=as_numpy) for each in arrays]),
        },
        RECORDIO: {"SDK": lambda: RecordSerializer().serialize(single)},
    }


def table(found: list[Contest]) -> str:
    """Milliseconds of CPU time, and how many times as long the others take."""
    lines = ["| | Partway | others |", "|---|---|---|"]
    for each in found:
        ours = each.times["partway"]
        others = ", ".join(
            f"{name} {_ms(taken)} ({taken / ours:.1f} ×)"
            for name, taken in each.times.items()
            if name != "partway"
        )
        lines.append(f"| `{each.name}` | {_ms(ours)} | {others} |")
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.{1 if seconds < 0.01 else 0}f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formats", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT")
    options = parser.parse_args()
    found = [each for each in contests(options.rows) if options.only in each.name]
    for _ in range(options.rounds):
        for each in found:
            each.go()
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
