"""Google's generated client as a process: over REST, where its bodies are within JSON, or gRPC.

Called with ``rest`` or ``grpc``, the gateway's host and port, a token and an endpoint's whole name;
prints what comes.
"""

from __future__ import annotations

import sys

from google.api import httpbody_pb2
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import aiplatform_v1
from google.oauth2.credentials import Credentials
from google.protobuf import json_format, struct_pb2

transport, host, token, name = sys.argv[1:]
known = {
    "credentials": Credentials(token),
    "transport": transport,
    "client_options": {"api_endpoint": host},
}
client = aiplatform_v1.PredictionServiceClient(**known)
instance = json_format.ParseDict([1, 2], struct_pb2.Value())
body = httpbody_pb2.HttpBody(content_type="text/plain", data=b"any bytes \xff")

answer = client.predict(endpoint=name, instances=[instance])
print([*answer.predictions], answer.deployed_model_id, answer.model)
whole = client.raw_predict(endpoint=name, http_body=body)
print(whole.content_type, whole.data)
for piece in client.stream_raw_predict(endpoint=name, http_body=body):
    print(piece.content_type, piece.data)
try:
    client.predict(endpoint=f"{name}-unknown", instances=[instance])
except GoogleAPICallError as error:
    print(type(error).__name__, error.message.rpartition(": ")[2])
endpoint = aiplatform_v1.EndpointServiceClient(**known).get_endpoint(name=name)
print(endpoint.name == name, dict(endpoint.traffic_split), endpoint.dedicated_endpoint_dns == host)
