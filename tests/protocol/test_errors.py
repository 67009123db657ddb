from __future__ import annotations

import json

import pytest

from partway.protocol.errors import (
    QUOTED_CHARACTERS,
    AccessDenied,
    ApiError,
    ContainerError,
    InputValidationError,
    InternalServerError,
    NotFound,
    ServiceUnavailable,
    UpgradeRefused,
    quoted,
)


def concrete(error=ApiError):
    for subclass in error.__subclasses__():
        yield subclass
        yield from concrete(subclass)


@pytest.mark.clause("4-1", "4-2", "4-3", "4-4")
@pytest.mark.parametrize(
    ("error", "name", "status", "body"),
    [
        (InputValidationError("no"), "InputValidationError", 400,
         {"Message": "no", "ErrorCode": "InvalidInput"}),
        (InputValidationError("no", "Other"), "InputValidationError", 400,
         {"Message": "no", "ErrorCode": "Other"}),
        (ContainerError("refused", 403, "go away"), "ModelError", 424,
         {"Message": "refused", "OriginalStatusCode": 403, "OriginalMessage": "go away",
          "LogStreamArn": "", "ErrorCode": "ModelError"}),
        (ContainerError("not there"), "ModelError", 424,
         {"Message": "not there", "OriginalStatusCode": 0, "OriginalMessage": "",
          "LogStreamArn": "", "ErrorCode": "ModelError"}),
        (InternalServerError("oops"), "InternalServerError", 500, {"Message": "oops"}),
        (ServiceUnavailable("full"), "ServiceUnavailableError", 503,
         {"Message": "full", "ErrorCode": "ServiceUnavailable"}),
        (AccessDenied("no"), "AccessDeniedException", 403, {"Message": "no"}),
        (NotFound("no"), "UnknownOperationException", 404, {"Message": "no"}),
    ],
)  # fmt: skip
def test_name_status_and_body(error, name, status, body):
    assert (error.name, error.status) == (name, status)
    assert json.loads(error.body()) == body
    assert isinstance(error, ApiError)
    assert str(error) == error.message == body["Message"]


def test_every_error_has_a_name_and_a_status_of_its_own():
    # Those of a service that has names of its own may be loaded here too, by other tests.
    errors = [error for error in concrete() if error.__module__ == ApiError.__module__]
    named = [error for error in errors if "name" in vars(error)]
    assert len({error.name for error in named}) == len(named) >= 6
    assert all(400 <= error.status < 600 for error in errors)


def test_an_upgrade_is_refused_with_its_own_status_and_headers():
    error = UpgradeRefused("not 13", 426, {"Sec-WebSocket-Version": "13"})
    assert (error.name, error.status) == ("InputValidationError", 426)
    assert error.headers == {"Sec-WebSocket-Version": "13"}
    assert json.loads(error.body()) == {"Message": "not 13", "ErrorCode": "BadUpgrade"}


@pytest.mark.clause("4-1")
def test_a_body_is_json_whatever_the_message_holds():
    message = 'quote " backslash \\ newline \n umlaut ü \ud800'
    body = ContainerError(message, 500, message).body()
    assert body.isascii()
    assert json.loads(body)["Message"] == json.loads(body)["OriginalMessage"] == message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("image/png", "'image/png'"),
        ("", "''"),
        ("a\x1b[2J\r\nb", r"'a\x1b[2J\r\nb'"),
        ("é\u202e\udc80", r"'\xe9\u202e\udc80'"),
        ("x" * QUOTED_CHARACTERS, f"'{'x' * QUOTED_CHARACTERS}'"),
        ("x" * 10_000, f"'{'x' * (QUOTED_CHARACTERS - 3)}...'"),
    ],
)
def test_words_are_printable_and_cut(words: str, expected: str) -> None:
    assert quoted(words) == expected
