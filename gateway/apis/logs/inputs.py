"""The inputs of the log operations, and CloudWatch Logs' errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from partway.gateway.apis.aws_json.page_tokens import position_of, token_of
from partway.gateway.apis.aws_json.shapes import ServiceShapes
from partway.gateway.apis.aws_json.validation import CheckedInputs
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.arns import Arns
from partway.protocol.errors import ApiError

#: CloudWatch Logs, as in botocore's files.
_SERVICE: Final = "logs"
_VERSION: Final = "2014-03-28"

_TOKEN: Final = re.compile("([fb])/([0-9]{56})/s")

#: The first number that is too large for a position.
_MOST: Final = 2**63


class InvalidParameter(ApiError):
    """A member of a log operation's input is not valid, or not supported."""

    name = "InvalidParameterException"
    status = 400


class NoSuchLog(ApiError):
    """There is no such log group, or no such log stream in the group.

    Args:
        what: ``group`` or ``stream``.
    """

    name = "ResourceNotFoundException"
    status = 400

    def __init__(self, what: Literal["group", "stream"]) -> None:
        super().__init__(f"The specified log {what} does not exist.")


class LogsUnavailable(ApiError):
    name = "ServiceUnavailableException"
    status = 503


class LogInputs:
    def __init__(self, operations: Collection[str]) -> None:
        self._inputs = CheckedInputs(ServiceShapes(_SERVICE, _VERSION, operations))

    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, without members that are null.

        Raises:
            SerializationException: a value has another type than its shape.
            InvalidParameter: a value is not allowed; the message names it and the constraint.
        """
        try:
            return await self._inputs.checked(operation, members)
        except ValidationException as error:
            raise InvalidParameter(error.message) from None


def group_asked_for(members: Mapping[str, Any], arns: Arns) -> str:
    """Return the name of the requested log group.

    Args:
        members: the input, checked.

    Raises:
        InvalidParameter: the group is not named, or named twice.
    """
    name, identifier = members.get("logGroupName"), members.get("logGroupIdentifier")
    if (name is None) == (identifier is None):
        raise InvalidParameter("Exactly one of logGroupName and logGroupIdentifier must be given.")
    return str(name) if identifier is None else group_identified(identifier, arns)


def group_identified(identifier: str, arns: Arns) -> str:
    """Return the name of a log group from its identifier, which is the name or the ARN."""
    return identifier.removeprefix(arns.of("log-group:", service="logs"))


class EventsToken(NamedTuple):
    """The position where GetLogEvents continues.

    Attributes:
        forward: whether to continue with later events, and not with earlier ones.
        position: the position in the whole output of the instance.
    """

    forward: bool
    position: int

    def written(self) -> str:
        return f"{'f' if self.forward else 'b'}/{self.position:056d}/s"


def read_events_token(text: str) -> EventsToken:
    """Parse a token of GetLogEvents, or raise InvalidParameter."""
    match = _TOKEN.fullmatch(text)
    if match is None or int(match[2]) >= _MOST:
        raise bad_token()
    return EventsToken(match[1] == "f", int(match[2]))


def mark_token(operation: str, members: Mapping[str, Any], mark: Any) -> str:
    """Return the token that continues an operation after a mark.

    Args:
        members: the input, checked.
        mark: the last item of the answer, as JSON.
    """
    return token_of(_asked_for(operation, members), mark)


def read_mark_token(operation: str, members: Mapping[str, Any]) -> Any:
    """Return the mark after which an operation continues; None to begin.

    Raises:
        InvalidParameter: the token does not belong to this operation with these members.
    """
    token = members.get("nextToken")
    if token is None:
        return None
    try:
        return position_of(_asked_for(operation, members), token)
    except ValidationException:
        raise bad_token() from None


def bad_token() -> InvalidParameter:
    """Return the error for a token that the operation has not issued."""
    return InvalidParameter("The specified nextToken is invalid.")


def _asked_for(operation: str, members: Mapping[str, Any]) -> Any:
    return [operation, {**members, "nextToken": None, "limit": None}]
