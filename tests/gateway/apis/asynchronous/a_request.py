"""Asynchronous requests as tests have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.arns import Arns


def leave_of(may: Callable[[str, str, str], bool] = lambda *_: True) -> OutputPermissions:
    """Leave to put and to publish; by default everybody has it."""
    return OutputPermissions(may, Arns("us-east-1", "000000000000"))


def a_request(endpoint: str = "e", **members: Any) -> AsyncRequest:
    """A request with a body of four bytes, which came at second 0 and may wait for a minute."""
    given = {
        "id": uuid4().hex,
        "inference_id": "mine",
        "endpoint": endpoint,
        "sender": "",
        "received": 0.0,
        "expires": 60.0,
        "within": 900.0,
        "input": "",
        "output": "s3://bucket/ok/a.out",
        "failure": "s3://bucket/bad/a-error.out",
        "length": 4,
    }
    return AsyncRequest(**(given | members))
