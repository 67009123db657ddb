"""boto3's own client of SageMaker, signed requests by botocore, and plain ones."""

from __future__ import annotations

import functools
import http.client
import json
from typing import Any

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import Session

REGION = "us-east-1"
ACCOUNT = "000000000000"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:"

KEY = Credentials("AKIDDEPLOYMENT", "a-secret-of-the-deployment")
READING = Credentials("AKIDREADING", "a-secret-of-who-only-reads")

#: Whose keys these are, and what each may do.
PRINCIPALS = f"""
[[principals]]
name = "deployment"
actions = ["sagemaker:*"]
[[principals.keys]]
access_key_id = "{KEY.access_key}"
secret_access_key = "{KEY.secret_key}"

[[principals]]
name = "reading"
actions = ["sagemaker:Describe*"]
resources = ["{ARN}model/echo"]
[[principals.keys]]
access_key_id = "{READING.access_key}"
secret_access_key = "{READING.secret_key}"
"""


@functools.cache
def _session() -> Session:
    """One for all clients: it reads the files of the service once."""
    session = Session()
    session.set_config_variable("region", REGION)
    return session


def sagemaker(port: int, key: Credentials = KEY) -> BaseClient:
    """The client of SageMaker's API."""
    return aws("sagemaker", port, key)


def aws(service: str, port: int, key: Credentials = KEY, **config: Any) -> BaseClient:
    """What ``boto3.client(service, endpoint_url=…)`` is; to be used on another thread.

    Args:
        service: as botocore names it.
        port: of the gateway, on this machine.
        key: that signs.
        config: further members of botocore's ``Config``.
    """
    return _session().create_client(
        service,
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=key.access_key,
        aws_secret_access_key=key.secret_key,
        config=Config(
            retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=20, **config
        ),
    )


def signed(port: int, operation: str, body: bytes, how: str = "header") -> AWSRequest:
    """A request as botocore signs it: by a header, or in its query (``presigned``)."""
    request = AWSRequest(
        "POST",
        f"http://127.0.0.1:{port}/",
        {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"SageMaker.{operation}",
            "Host": f"127.0.0.1:{port}",
        },
        body,
    )
    if how == "header":
        SigV4Auth(KEY, "sagemaker", REGION).add_auth(request)
    else:
        SigV4QueryAuth(KEY, "sagemaker", REGION, expires=300).add_auth(request)
    return request


def send(port: int, request: AWSRequest) -> tuple[int, Any]:
    """Send a request as it is, and return the response's status and its JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        prepared = request.prepare()
        target = prepared.url.partition(f":{port}")[2]
        connection.request(prepared.method, target, prepared.body, dict(prepared.headers))
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    return response.status, json.loads(text) if text else None
