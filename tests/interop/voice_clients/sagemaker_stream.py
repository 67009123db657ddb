"""A stream of AWS's SDK for Python, as AWS's samples open it: the region alone names SageMaker."""

from __future__ import annotations

import json
from typing import Any

from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client
from aws_sdk_sagemaker_runtime_http2.config import AsyncSageMakerRuntimeHTTP2Config
from aws_sdk_sagemaker_runtime_http2.models import (
    InvokeEndpointWithBidirectionalStreamInput,
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
)
from smithy_aws_core.identity import EnvironmentCredentialsResolver
from smithy_http.aio.crt import AWSCRTHTTPClient


async def opened(endpoint: str, region: str, path: str | None = None) -> Any:
    """Return an open stream.

    Args:
        path: the model's path; None for the default one.
    """
    config = await AsyncSageMakerRuntimeHTTP2Config.resolve(
        endpoint_uri=f"https://runtime.sagemaker.{region}.amazonaws.com:8443",
        region=region,
        aws_credentials_identity_resolver=EnvironmentCredentialsResolver(),
        transport=AWSCRTHTTPClient(),
    )
    sdk = AsyncSageMakerRuntimeHTTP2Client(config=config)
    named = InvokeEndpointWithBidirectionalStreamInput(
        endpoint_name=endpoint, model_invocation_path=path
    )
    return await sdk.invoke_endpoint_with_bidirectional_stream(named)


async def send(stream: Any, message: dict[str, Any]) -> None:
    """Send a message as text."""
    part = RequestPayloadPart(bytes_=json.dumps(message).encode(), data_type="UTF8")
    await stream.input_stream.send(RequestStreamEventPayloadPart(value=part))
