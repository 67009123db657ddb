"""SageMaker's API keys: bearer tokens for clients that cannot sign, such as OpenAI's.

A key is ``sagemaker-api-key-`` and the base64 of a presigned URL: a POST to the fixed host
``sagemaker.amazonaws.com`` with ``Action=CallWithBearerToken``. Its scheme is cut off, and
``&Version=1`` is appended after signing. The source of this form is ``token_generator`` of
sagemaker-core 2.27.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from partway.protocol.errors import IncompleteSignature
from partway.protocol.signatures.canonical_form import Credentials
from partway.protocol.signatures.signed_request import SignableRequest
from partway.protocol.signatures.signing import presign

#: The longest life in seconds: AWS's own keys are valid for twelve hours.
MAX_API_KEY_EXPIRES: Final = 43_200
#: Temporary credentials have session tokens of up to about 2,000 characters.
MAX_API_KEY_CHARACTERS: Final = 8192

PREFIX: Final = "sagemaker-api-key-"
#: IAM's name of the permission that the key's owner needs beside the operation's.
ACTION: Final = "sagemaker:CallWithBearerToken"

_FROM_BASE64URL: Final = str.maketrans("-_", "+/")
_HOST: Final = "sagemaker.amazonaws.com"
_QUERY: Final = "Action=CallWithBearerToken"
_VERSION: Final = "&Version=1"
_UNREADABLE: Final = (
    f"the API key cannot be read; it must be {PREFIX} and the base64 of "
    f"{_HOST}/?{_QUERY}, presigned: `partway token` makes one"
)


def make_api_key(
    credentials: Credentials, *, region: str, now: float, expires: int = MAX_API_KEY_EXPIRES
) -> str:
    """Return an API key.

    Args:
        credentials: the access key to sign with.
        region: the gateway's region.
        now: epoch seconds.
        expires: seconds that it is valid, 1 to MAX_API_KEY_EXPIRES.
    """
    query = presign(_request(_QUERY), credentials, region=region, now=now, expires=expires)
    url = f"{_HOST}/?{query}{_VERSION}"
    return PREFIX + base64.b64encode(url.encode()).decode()


def request_of_api_key(key: str) -> SignableRequest:
    """Return the presigned request that an API key contains; its signature is not checked.

    Raises:
        IncompleteSignature: the key has another form.
    """
    if len(key) > MAX_API_KEY_CHARACTERS:
        raise IncompleteSignature(_UNREADABLE)
    encoded = key.removeprefix(PREFIX).translate(_FROM_BASE64URL)
    try:
        url = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise IncompleteSignature(_UNREADABLE) from None
    place, _, query = url.partition("?")
    request = _request(query.removesuffix(_VERSION))
    action = [value for name, value in request.parameters() if name == b"Action"]
    if place.rstrip("/") != _HOST or action != [b"CallWithBearerToken"]:
        raise IncompleteSignature(_UNREADABLE)
    return request


def _request(query: str) -> SignableRequest:
    return SignableRequest("POST", "/", query, (("host", _HOST),))
