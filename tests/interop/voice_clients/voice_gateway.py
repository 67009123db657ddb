"""The gateway of voice clients: its host name is SageMaker's, since some use no other."""

from __future__ import annotations

import os
import time
from pathlib import Path

from partway.protocol.signatures.api_keys import make_api_key
from partway.protocol.signatures.verification import Credentials
from tests.interop.aws_sdk import KEY, REGION, ServedGateway
from tests.interop.pipecat_bot import HOST, PORT

TOKEN = "a-token-of-a-voice-client"
PRINCIPALS = f"""
[[principals]]
name = "voices"
actions = [
    "sagemaker:InvokeEndpoint",
    "sagemaker:InvokeEndpointWithBidirectionalStream",
    "sagemaker:CallWithBearerToken",
]
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "{KEY.access_key_id}"
secret_access_key = "{KEY.secret_access_key}"
"""

#: Flags of the gateway.
FLAGS = ("--tls-port", str(PORT), "--tls-name", HOST)

URL = f"https://{HOST}:{PORT}"
BASE = f"{URL}/endpoints/voice/openai/v1"
STREAMS = f"{URL}/endpoints/voice/stream"

#: Variables that name interpreters, and what each must have.
VOICE = ("VOICE_PYTHON", "deepgram-sagemaker, openai[realtime] and LiveKit's plugins")
PIPECAT = ("PIPECAT_PYTHON", "pipecat-ai[sagemaker,deepgram,openai] and aiobotocore")


def api_key() -> str:
    """Return the key of OpenAI's clients, as ``partway token`` prints it."""
    credentials = Credentials(KEY.access_key_id, KEY.secret_access_key)
    return make_api_key(credentials, region=REGION, now=time.time())


def environment(gateway: ServedGateway, directory: Path) -> dict[str, str]:
    """Return the variables of a client's process; its home is the directory."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "PYTHONUNBUFFERED": "1",  # as pipecat_bot says
        "SSL_CERT_FILE": str(gateway.ca),
        "NODE_EXTRA_CA_CERTS": str(gateway.ca),
        "AWS_ACCESS_KEY_ID": KEY.access_key_id,
        "AWS_SECRET_ACCESS_KEY": KEY.secret_access_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
