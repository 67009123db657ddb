"""grpcio and Triton's client as a process: what a gateway answers to calls, good and bad.

Called with the gateway's host and port for TLS, the CA's file and a token; prints a line for each.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

host, ca, token = sys.argv[1:]
known = [("authorization", f"Bearer {token}")]
credentials = grpc.ssl_channel_credentials(Path(ca).read_bytes())


def asked(model: str, count: int = 1) -> service_pb2.ModelInferRequest:
    """A request of ``count`` instances as typed numbers."""
    request = service_pb2.ModelInferRequest(model_name=model, id="7")
    given = request.inputs.add(name="x", datatype="FP32", shape=[count, 2])
    given.contents.fp32_contents.extend([1, 2] * count)
    return request


def ends(call, *args, **options) -> str:
    """The status that a call ends with."""
    try:
        return f"OK {call(*args, **options)}"
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()}"


with grpc.secure_channel(host, credentials) as channel:
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    health = health_pb2_grpc.HealthStub(channel)
    answer = stub.ModelInfer(asked("classifier"), metadata=known, compression=grpc.Compression.Gzip)
    print(answer.model_name, answer.id, answer.outputs[0].contents)
    with ThreadPoolExecutor(16) as threads:
        many = [
            threads.submit(stub.ModelInfer, asked("classifier", n % 50 + 1), metadata=known)
            for n in range(400)
        ]
        print(sum(each.result().outputs[0].shape[0] for each in many))
    print(ends(stub.ModelInfer, asked("unknown"), metadata=known))
    print(ends(stub.ModelInfer, asked("classifier")))
    print(ends(stub.ModelInfer, asked("classifier", 400_000), metadata=known))
    print(ends(stub.ModelConfig, service_pb2.ModelConfigRequest(), metadata=known))
    print(ends(lambda: next(health.Watch(health_pb2.HealthCheckRequest()))))
    print(ends(health.Check, health_pb2.HealthCheckRequest(service="none")).partition(":")[0])
    status = health.Check(health_pb2.HealthCheckRequest(service="")).status
    print(status == health_pb2.HealthCheckResponse.SERVING)

given = triton.InferInput("x", [2, 2], "FP32")
given.set_data_from_numpy(np.array([[1, 2], [3, 4]], dtype=np.float32))
with triton.InferenceServerClient(host, ssl=True, root_certificates=ca) as client:
    found = client.infer("classifier", [given], headers=dict(known))
    print(found.as_numpy("output-0").tolist())
