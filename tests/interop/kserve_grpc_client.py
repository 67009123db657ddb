"""KServe's client over gRPC as a process; prints a line for each answer.

Called with the gateway's host and port, and the names of an endpoint whose container takes
instances, of one that speaks the protocol, and of none.
"""

from __future__ import annotations

import asyncio
import sys

import grpc
import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient

host, instances, speaking, unknown = sys.argv[1:]


def asked(model: str, *, binary: bool) -> InferRequest:
    """A request of six numbers, as bytes or as numbers."""
    given = InferInput("x", [6], "FP32")
    given.set_data_from_numpy(np.arange(6, dtype=np.float32), binary_data=binary)
    return InferRequest(model, [given], request_id="7")


async def main() -> None:
    client = InferenceGRPCClient(host, timeout=60)
    print(await client.is_server_ready(), await client.is_model_ready(instances))
    for model in (instances, speaking):
        for binary in (True, False):
            answer = await client.infer(asked(model, binary=binary))
            (output,) = answer.outputs
            print(answer.model_name, answer.id, output.as_numpy().tolist())
    try:
        await client.infer(asked(unknown, binary=True))
    except grpc.RpcError as error:
        print(error.code().name, error.details())


asyncio.run(main())
