"""CloudWatch Logs: the operations that read the output of instances (``Logs_20140328``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import Answer, ControlOperation, operation_routes
from partway.gateway.apis.control.limits import (
    LOG_LIST_PAGE,
    LOG_PAGE_EVENTS,
    LOG_READ_TIMEOUT,
    LOG_READS,
)
from partway.gateway.apis.logs.events import (
    Mark,
    PageOfOne,
    Sought,
    page_of_one,
    page_of_several,
    span_of,
)
from partway.gateway.apis.logs.filter_patterns import read_pattern
from partway.gateway.apis.logs.inputs import (
    EventsToken,
    InvalidParameter,
    LogInputs,
    LogsUnavailable,
    NoSuchLog,
    bad_token,
    group_asked_for,
    group_identified,
    mark_token,
    read_events_token,
    read_mark_token,
)
from partway.gateway.apis.logs.streams import LogStreams, group_shown, stream_shown
from partway.gateway.arns import Arns
from partway.gateway.fleet.output.log_names import log_arn
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.http.routes import Route
from partway.gateway.quota import ANY_NUMBER, NOBODY, Quota, QuotaLimits
from partway.gateway.storage.file_threads import Wanted, on_thread
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

#: CloudWatch Logs, as in targets, signatures and actions.
_TARGETS: Final = "Logs_20140328"
_SERVICE: Final = "logs"

_Members = Mapping[str, Any]
_T = TypeVar("_T")


class LogOperations:
    """The operations that read logs.

    Args:
        folder: the folder of the instances' output; None if nothing is kept.
    """

    def __init__(
        self,
        folder: Path | None,
        endpoints: Callable[[], Iterable[EndpointStatus]],
        arns: Arns,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._endpoints = endpoints
        self._arns = arns
        self._clock = clock
        # The number of connections bounds the queue, and LOG_READ_TIMEOUT bounds the wait.
        self._turns = Quota(QuotaLimits(LOG_READS, 1, ANY_NUMBER, ANY_NUMBER))
        #: The operations by AWS's names.
        self.operations: Mapping[str, ControlOperation] = {
            "DescribeLogGroups": self._describe_groups,
            "DescribeLogStreams": self._describe_streams,
            "GetLogEvents": self._get_events,
            "FilterLogEvents": self._filter_events,
        }

    @property
    def routes(self) -> tuple[Route, ...]:
        inputs = LogInputs(self.operations)
        return operation_routes(_TARGETS, self.operations, inputs, _SERVICE)

    async def _describe_groups(self, members: _Members, identity: Identity, _: str) -> Answer:
        self._check(identity, "DescribeLogGroups")
        fits = _groups_asked_for(members, self._arns)
        last = read_mark_token("DescribeLogGroups", members)
        if last is not None and not isinstance(last, str):
            raise bad_token()
        groups = await self._read(identity, lambda there, _: there.groups())
        names = sorted(name for name in groups if fits(name) and (last is None or name > last))
        page, token = _page_of("DescribeLogGroups", members, names)
        shown = [group_shown(self._arns, name, groups[name]) for name in page]
        return {"logGroups": shown, **token}

    async def _describe_streams(self, members: _Members, identity: Identity, _: str) -> Answer:
        group = group_asked_for(members, self._arns)
        self._check(identity, "DescribeLogStreams", group)
        prefix = members.get("logStreamNamePrefix", "")
        by_time = members.get("orderBy") == "LastEventTime"
        if by_time and prefix:
            raise InvalidParameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
        last = _place_of(read_mark_token("DescribeLogStreams", members))

        def read(there: LogStreams, wanted: Wanted) -> dict[tuple[int, str], tuple[int, int]]:
            found = {}
            for name, instance in there.streams(group).items():
                wanted.check()
                times = there.times(instance) if name.startswith(prefix) else None
                if times is not None:
                    found[(times[1] if by_time else 0), name] = times
            return found

        descending = members.get("descending", False)
        found = await self._read(identity, read)
        places = [
            place
            for place in sorted(found, reverse=descending)
            if last is None or (place < last if descending else place > last)
        ]
        page, token = _page_of("DescribeLogStreams", members, places)
        shown = [stream_shown(self._arns, group, place[1], found[place]) for place in page]
        return {"logStreams": shown, **token}

    async def _get_events(self, members: _Members, identity: Identity, _: str) -> Answer:
        group = group_asked_for(members, self._arns)
        name = members["logStreamName"]
        self._check(identity, "GetLogEvents", group, name)
        token = EventsToken(members.get("startFromHead", False), -1)
        if "nextToken" in members:
            token = read_events_token(members["nextToken"])

        def read(there: LogStreams, _: Wanted) -> dict[str, Any]:
            printed, over = there.stream(group, name)
            if printed is None:
                return _events_answer(PageOfOne([], 0, 0))
            with printed:
                start, end = members.get("startTime"), members.get("endTime")
                page = page_of_one(
                    printed,
                    span_of(printed, start, end, over=over),
                    None if token.position < 0 else token.position,
                    members.get("limit", LOG_PAGE_EVENTS),
                    forward=token.forward,
                )
            return _events_answer(page)

        return await self._read(identity, read)

    async def _filter_events(self, members: _Members, identity: Identity, _: str) -> Answer:
        group = group_asked_for(members, self._arns)
        self._check(identity, "FilterLogEvents", group)
        names, prefix = members.get("logStreamNames"), members.get("logStreamNamePrefix")
        if names is not None and prefix is not None:
            raise InvalidParameter("logStreamNames and logStreamNamePrefix must not both be given.")
        if not members.get("startFromHead", True):
            raise InvalidParameter(
                "startFromHead must be true, or left out; use GetLogEvents for the latest "
                "events of a stream."
            )
        end = members.get("endTime")
        sought = Sought(
            read_pattern(members.get("filterPattern", "")),
            members.get("startTime"),
            None if end is None else end + 1,  # unlike in GetLogEvents, this time is included
            members.get("limit", LOG_PAGE_EVENTS),
            _mark_of(read_mark_token("FilterLogEvents", members)),
        )

        def read(there: LogStreams, wanted: Wanted) -> tuple[list[dict[str, Any]], Mark | None]:
            streams = there.streams(group)
            if names is not None and not streams.keys() >= set(names):
                raise NoSuchLog("stream")
            chosen = [
                (name, lambda instance=instance: there.opened(instance))
                for name, instance in streams.items()
                if (names is None or name in names) and name.startswith(prefix or "")
            ]
            return page_of_several(chosen, sought, wanted.check)

        events, mark = await self._read(identity, read)
        # Always empty, as in AWS's answers today.
        answer: dict[str, Any] = {"events": events, "searchedLogStreams": []}
        if mark is not None:
            answer["nextToken"] = mark_token("FilterLogEvents", members, mark)
        return answer

    def _check(self, identity: Identity, action: str, group: str = "", stream: str = "") -> None:
        identity.check(f"{_SERVICE}:{action}", log_arn(self._arns, group, stream))

    async def _read(self, identity: Identity, read: Callable[[LogStreams, Wanted], _T]) -> _T:
        """Read files on a thread, once it is this request's turn.

        Raises:
            LogsUnavailable: the files cannot be read, or not in time.
        """
        there = LogStreams.of(self._folder, self._endpoints())
        owner = identity.principal or NOBODY
        try:
            async with time_limit(self._clock, LOG_READ_TIMEOUT):
                await self._turns.claim(1, owner)
                try:
                    return await on_thread(self._clock, lambda wanted: read(there, wanted))
                finally:
                    self._turns.give_back(1, owner)
        except TimeoutError:
            raise LogsUnavailable("the logs could not be read in time; try again") from None
        except OSError as error:
            raise LogsUnavailable(f"the logs cannot be read: {error.strerror}") from None


def _events_answer(page: PageOfOne) -> dict[str, Any]:
    """Return a page as GetLogEvents does; at the end of a stream the tokens stay the same."""
    return {
        "events": page.events,
        "nextForwardToken": EventsToken(True, page.end).written(),
        "nextBackwardToken": EventsToken(False, page.begin).written(),
    }


def _groups_asked_for(members: _Members, arns: Arns) -> Callable[[str], bool]:
    """Return the test for requested groups; raise InvalidParameter for other accounts."""
    prefix, part = members.get("logGroupNamePrefix"), members.get("logGroupNamePattern")
    if prefix is not None and part is not None:
        raise InvalidParameter("logGroupNamePrefix and logGroupNamePattern must not both be given.")
    if members.get("includeLinkedAccounts") or members.get("accountIdentifiers"):
        raise InvalidParameter(
            "includeLinkedAccounts and accountIdentifiers must be left out: this gateway has "
            "the log groups of one account."
        )
    ids = members.get("logGroupIdentifiers")
    names = None if ids is None else {group_identified(each, arns) for each in ids}
    standard = members.get("logGroupClass", "STANDARD") == "STANDARD"
    return lambda name: (
        standard
        and name.startswith(prefix or "")
        and (part or "") in name
        and (names is None or name in names)
    )


def _page_of(
    operation: str, members: _Members, places: list[_T]
) -> tuple[list[_T], dict[str, str]]:
    """Return the first places of a list, up to the requested number.

    Args:
        places: the remaining places, in a form that a token can hold.

    Returns:
        The page, and the answer's token for the next page, if there is one.
    """
    most = members.get("limit", LOG_LIST_PAGE)
    page = places[:most]
    if len(places) <= most:
        return page, {}
    return page, {"nextToken": mark_token(operation, members, page[-1])}


def _place_of(mark: Any) -> tuple[int, str] | None:
    """Return the place in a token, or raise InvalidParameter: a digest prevents no forgery."""
    match mark:
        case None:
            return None
        case [int(time), str(name)]:
            return time, name
    raise bad_token()


def _mark_of(mark: Any) -> Mark | None:
    """Return the position among events in a token, or raise InvalidParameter."""
    match mark:
        case None:
            return None
        case [int(time), str(name), int(position)]:
            return time, name, position
    raise bad_token()
