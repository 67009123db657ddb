"""What the log operations take, and the errors that CloudWatch Logs has for the rest."""

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

#: CloudWatch Logs, as botocore's files have it.
_SERVICE: Final = "logs"
_VERSION: Final = "2014-03-28"

_TOKEN: Final = re.compile("([fb])/([0-9]{56})/s")

#: Where positions end.
_MOST: Final = 2**63


class InvalidParameter(ApiError):
    """What a log operation is given cannot be meant, or is not known here."""

    name = "InvalidParameterException"
    status = 400


class NoSuchLog(ApiError):
    """There is no such log group, or no such log stream in it.

    Args:
        what: ``group`` or ``stream``.
    """

    name = "ResourceNotFoundException"
    status = 400

    def __init__(self, what: Literal["group", "stream"]) -> None:
        super().__init__(f"The specified log {what} does not exist.")


class LogsUnavailable(ApiError):
    """The files with what instances have printed cannot be read now."""

    name = "ServiceUnavailableException"
    status = 503


class LogInputs:
    """What the log operations take, by botocore's model of them.

    Args:
        operations: AWS's names of them.
    """

    def __init__(self, operations: Collection[str]) -> None:
        self._inputs = CheckedInputs(ServiceShapes(_SERVICE, _VERSION, operations))

    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, those left out that are null.

        Raises:
            SerializationException: a value is of another type than the operation's.
            InvalidParameter: a value is not allowed; the message says which, and why.
        """
        try:
            return await self._inputs.checked(operation, members)
        except ValidationException as error:
            raise InvalidParameter(error.message) from None


def group_asked_for(members: Mapping[str, Any], arns: Arns) -> str:
    """Return the name of the log group that is asked for.

    Args:
        members: of the input, checked.
        arns: makes names.

    Raises:
        InvalidParameter: it is not named, or more than once.
    """
    name, identifier = members.get("logGroupName"), members.get("logGroupIdentifier")
    if (name is None) == (identifier is None):
        raise InvalidParameter("Exactly one of logGroupName and logGroupIdentifier must be given.")
    return str(name) if identifier is None else group_identified(identifier, arns)


def group_identified(identifier: str, arns: Arns) -> str:
    """The name of a log group, of which an identifier is the name or the ARN."""
    return identifier.removeprefix(arns.of("log-group:", service="logs"))


class EventsToken(NamedTuple):
    """Where GetLogEvents goes on.

    Attributes:
        forward: whether to what comes behind the position.
        position: among all that the instance has printed.
    """

    forward: bool
    position: int

    def written(self) -> str:
        """The token as clients have it, in the form of AWS's."""
        return f"{'f' if self.forward else 'b'}/{self.position:056d}/s"


def read_events_token(text: str) -> EventsToken:
    """Read a token of GetLogEvents.

    Raises:
        InvalidParameter: it is none that GetLogEvents has answered.
    """
    match = _TOKEN.fullmatch(text)
    if match is None or int(match[2]) >= _MOST:
        raise bad_token()
    return EventsToken(match[1] == "f", int(match[2]))


def mark_token(operation: str, members: Mapping[str, Any], mark: Any) -> str:
    """The token with which an operation goes on behind a mark.

    Args:
        operation: AWS's name of it.
        members: of its input, checked.
        mark: the last of what has been answered, as JSON.
    """
    return token_of(_asked_for(operation, members), mark)


def read_mark_token(operation: str, members: Mapping[str, Any]) -> Any:
    """The mark behind which an operation is to go on; None to begin.

    Raises:
        InvalidParameter: the token is none that this operation has answered, asked for the same.
    """
    token = members.get("nextToken")
    if token is None:
        return None
    try:
        return position_of(_asked_for(operation, members), token)
    except ValidationException:
        raise bad_token() from None


def bad_token() -> InvalidParameter:
    """The error of a token that no such operation has answered."""
    return InvalidParameter("The specified nextToken is invalid.")


def _asked_for(operation: str, members: Mapping[str, Any]) -> Any:
    return [operation, {**members, "nextToken": None, "limit": None}]
