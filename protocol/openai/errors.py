"""Errors of OpenAI's API: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

import json
from http import HTTPStatus


def error_body(message: str, status: int, code: str | None = None) -> bytes:
    """Write an error as the body of a response, or as the data of an event.

    Args:
        message: what was found, and what it must be.
        status: the response's; it decides the type, and so the exception of OpenAI's clients.
        code: a name for programs.
    """
    is_clients = status < HTTPStatus.INTERNAL_SERVER_ERROR
    error = {
        "message": message,
        "type": "invalid_request_error" if is_clients else "server_error",
        "param": None,
        "code": code,
    }
    return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")).encode()
