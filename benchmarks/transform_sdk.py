"""The local mode of SageMaker's SDK for Python, from a file to its output, without Docker.

``SDK_PYTHON benchmarks/transform_sdk.py URL INPUT OUTPUT`` prints records a second. The SDK's own
code asks and writes. Only the container that the SDK would start with Docker runs already.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

from sagemaker.local import entities
from sagemaker.local.local_session import LocalSagemakerRuntimeClient


def main(url: str, source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").mkdir()
        shutil.copy(source, Path(folder) / "in")
        out = Path(folder) / "out"
        out.mkdir()
        config = {"local": {"serving_port": urlsplit(url).port}}
        session = SimpleNamespace(
            config=config, sagemaker_runtime_client=LocalSagemakerRuntimeClient(config)
        )
        job = object.__new__(entities._LocalTransformJob)
        job.local_session, job.name = session, "job"
        job.container = SimpleNamespace(stop_serving=lambda: None)
        given = {
            "DataSource": {"S3DataSource": {"S3Uri": f"file://{folder}/in"}},
            "SplitType": "Line",
            "ContentType": "text/csv",
        }
        began = time.perf_counter()
        job._perform_batch_inference(
            given, {"S3OutputPath": f"file://{out}"}, BatchStrategy="SingleRecord", MaxPayloadInMB=6
        )
        seconds = time.perf_counter() - began
        (written,) = [path for path in out.rglob("*.out") if path.is_file()]
        shutil.copy(written, target)
    print(source.read_bytes().count(b"\n") / seconds)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
