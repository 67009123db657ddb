"""An endpoint's life through boto3: created, invoked, updated under load, scaled, deleted.

Run it beside ``partway serve``. The first argument is the gateway's address::

    python boto3_lifecycle.py http://127.0.0.1:8090 /srv/answers

The second argument is optional: a folder below ``local_results`` of the gateway's settings. With it
the script also invokes asynchronously, and reads the answer there. Only ``endpoint_url`` differs
from a script for AWS. docs/how-to/boto3.md explains more.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

NAME = "lifecycle"
ROLE = "arn:aws:iam::000000000000:role/any"  # AWS needs a role; the gateway uses none

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"
ANSWERS = sys.argv[2] if len(sys.argv) > 2 else ""
#: Four threads send requests at once. A retry would hide a failed request, so there is none.
CONFIG = Config(max_pool_connections=4, retries={"total_max_attempts": 1})
REGION = "us-east-1"

sagemaker = boto3.client("sagemaker", endpoint_url=URL, region_name=REGION, config=CONFIG)
runtime = boto3.client("sagemaker-runtime", endpoint_url=URL, region_name=REGION, config=CONFIG)


def main() -> None:
    """Run each step, and print its result."""
    create_config("one", instances=1)
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=f"{NAME}-one")
    wait_until_in_service()
    show("created")

    response = runtime.invoke_endpoint(
        EndpointName=NAME, ContentType="text/plain", Accept="text/plain", Body=b"hello"
    )
    print("invoked:", response["Body"].read(), "by", response["InvokedProductionVariant"])

    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName=NAME, ContentType="text/plain", Body=b"hello, a part at a time"
    )
    parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
    print("streamed:", b"".join(parts))

    if ANSWERS:
        taken = runtime.invoke_endpoint_async(EndpointName=NAME, Body=b"hello, later")
        print("answered later:", awaited(Path(taken["OutputLocation"])))

    create_config("two", instances=1)
    with load() as asked:
        sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=f"{NAME}-two")
        wait_until_in_service()
        show("updated")
        scale(3)
        scale(1)
    print(f"updated and scaled under load: none of {asked()} requests failed")

    sagemaker.delete_endpoint(EndpointName=NAME)
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=NAME, WaiterConfig={"Delay": 1})
    for version in "one", "two":
        sagemaker.delete_endpoint_config(EndpointConfigName=f"{NAME}-{version}")
        sagemaker.delete_model(ModelName=f"{NAME}-{version}")
    left = sagemaker.list_endpoints(NameContains=NAME)["Endpoints"]
    print("deleted:", len(left), "endpoints are left")


def create_config(version: str, instances: int) -> None:
    """Make a model of the image ``echo``, which ships, and a configuration that serves it."""
    name = f"{NAME}-{version}"
    sagemaker.create_model(
        ModelName=name,
        PrimaryContainer={"Image": "echo", "Environment": {"SAGEMAKER_MODEL_VERSION": version}},
        ExecutionRoleArn=ROLE,
    )
    variant: dict[str, Any] = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InitialInstanceCount": instances,
        "InstanceType": "ml.m5.large",
    }
    members: dict[str, Any] = {"EndpointConfigName": name, "ProductionVariants": [variant]}
    if ANSWERS:
        where = {"S3OutputPath": ANSWERS, "S3FailurePath": ANSWERS}
        members["AsyncInferenceConfig"] = {"OutputConfig": where}
    sagemaker.create_endpoint_config(**members)


def wait_until_in_service() -> None:
    """Wait with a waiter, as scripts do; by default boto3 polls every 30 seconds."""
    waiter = sagemaker.get_waiter("endpoint_in_service")
    waiter.wait(EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 120})


def awaited(file: Path) -> bytes:
    """Return a file's content once it exists; an answer appears whole."""
    for _ in range(600):
        if file.exists():
            return file.read_bytes()
        time.sleep(0.1)
    raise SystemExit(f"{file}: no answer has come; look for one whose name ends in -error.out")


def scale(instances: int) -> None:
    """Change the number of instances, and wait until they serve."""
    desired = {"VariantName": "AllTraffic", "DesiredInstanceCount": instances}
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=NAME, DesiredWeightsAndCapacities=[desired]
    )
    wait_until_in_service()
    show("scaled")


def show(what: str) -> None:
    """Print the state of the endpoint."""
    described = sagemaker.describe_endpoint(EndpointName=NAME)
    (variant,) = described["ProductionVariants"]
    print(f"{what}: {described['EndpointStatus']}, {variant['CurrentInstanceCount']} in service")


@contextmanager
def load() -> Iterator[Callable[[], int]]:
    """Ask from four threads as long as the block runs; a request that fails is raised at its end.

    Gives a function that returns how many were asked, once the block is over.
    """
    over = threading.Event()

    def ask(thread: int) -> int:
        number = 0
        while not over.is_set():
            body = f"request {number} of thread {thread}".encode()
            response = runtime.invoke_endpoint(EndpointName=NAME, Body=body)
            assert response["Body"].read() == body
            number += 1
        return number

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(ask, thread) for thread in range(4)]
        try:
            yield lambda: sum(future.result() for future in futures)
        finally:
            over.set()


if __name__ == "__main__":
    main()
