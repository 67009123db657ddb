"""partway.gateway.apis.logs.operations: what boto3 reads of what instances print."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partway.gateway.access.authentication import ANYBODY, Identity
from partway.gateway.apis.control.limits import LOG_READ_TIMEOUT, LOG_READS
from partway.gateway.apis.logs import operations as logs
from partway.gateway.apis.logs.inputs import LogInputs
from partway.gateway.apis.logs.operations import LogOperations
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Endpoint, Program, Variant
from partway.gateway.fleet.limits import OUTPUT_FILE_BYTES
from partway.gateway.fleet.output.log_files import PrintedFiles
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.timing.clock import LoopClock
from partway.protocol.errors import AccessDenied, ApiError
from tests.gateway.apis.aws_client import KEY, READING, aws
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]

GROUP = "/aws/sagemaker/Endpoints/echo"
LIVING, GONE = "echo-AllTraffic-11111111", "echo-Other-22222222"
STREAM, GONE_STREAM = f"AllTraffic/{LIVING}", f"Other/{GONE}"
ARN = "arn:aws:logs:us-east-1:000000000000:log-group:"

NO_GROUP = ("ResourceNotFoundException", "The specified log group does not exist.")
NO_STREAM = ("ResourceNotFoundException", "The specified log stream does not exist.")

PRINCIPALS = f"""
[[principals]]
name = "deployment"
actions = ["logs:*"]
[[principals.keys]]
access_key_id = "{KEY.access_key}"
secret_access_key = "{KEY.secret_key}"

[[principals]]
name = "reading"
actions = ["logs:GetLogEvents"]
resources = ["{ARN}{GROUP}:log-stream:AllTraffic/*"]
[[principals.keys]]
access_key_id = "{READING.access_key}"
secret_access_key = "{READING.secret_key}"
"""

#: Prints without end, and never answers a ping.
ENDLESS = "import itertools\nfor n in itertools.count(): print('line', n, flush=True)"

#: Answers its pings, refuses everything else, and prints what it refuses.
REFUSING = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ping" else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if self.path != "/ping":
            print("refused", self.path, flush=True)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *_):
        pass
port = int(os.environ["SAGEMAKER_BIND_TO_PORT"])
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def data():
    with DataDirectory.temporary() as directory:
        yield directory


@pytest.fixture
def gone(data):
    """The files of an instance that is no more."""
    return PrintedFiles(data.logs, GONE, "echo")


def error_of(call, **members):
    with pytest.raises(ClientError) as caught:
        call(**members)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def messages(events):
    return [event["message"] for event in events]


def program(text):
    source = Program((sys.executable, "-u", "-c", text))
    return (Endpoint("echo", StreamPolicy(), (Variant(source=source),)),)


# --- By boto3, of instances that run -------------------------------------------------------------


async def test_an_instance_that_prints_without_end_is_followed(gateway_for, data):
    """As sagemaker-python-sdk does it: streams by prefix, then by tokens from the head."""
    gateway = await gateway_for(endpoints=program(ENDLESS), data=data)
    client = aws("logs", gateway.port)
    found = []

    def listed():
        while not (streams := client.describe_log_streams(logGroupName=GROUP)["logStreams"]):
            pass
        return streams

    (shown,) = await soon(asyncio.to_thread(listed))
    (instance,) = gateway.gateway.fleet.describe()[0].variants[0].instances
    assert shown["logStreamName"] == f"AllTraffic/{instance.id}"
    assert shown["arn"] == f"{ARN}{GROUP}:log-stream:{shown['logStreamName']}"
    assert abs(shown["creationTime"] / 1000 - time.time()) < 600
    assert shown["lastEventTimestamp"] >= shown["firstEventTimestamp"] == shown["creationTime"]

    def follow():
        token = {}
        while len(found) < 1000:
            page = client.get_log_events(
                logGroupName=GROUP, logStreamName=shown["logStreamName"], startFromHead=True,
                limit=300, **token,
            )  # fmt: skip
            found.extend(page["events"])
            token = {"nextToken": page["nextForwardToken"]}

    await soon(asyncio.to_thread(follow))
    assert messages(found) == [f"line {number}" for number in range(len(found))]
    times = [event["timestamp"] for event in found]
    assert times == sorted(times)


@pytest.mark.clause("4-3")
async def test_an_error_names_the_stream_in_which_the_reason_stands(gateway_for, data):
    gateway = await gateway_for(endpoints=program(REFUSING), data=data)
    await eventually(lambda: gateway.gateway.fleet.describe()[0].state == "InService")
    (instance,) = gateway.gateway.fleet.describe()[0].variants[0].instances

    def invoke():
        with pytest.raises(ClientError) as caught:
            aws("sagemaker-runtime", gateway.port).invoke_endpoint(EndpointName="echo", Body=b"x")
        return caught.value.response

    error = await asyncio.to_thread(invoke)
    assert error["Error"]["Code"] == "ModelError"
    assert error["LogStreamArn"] == f"{ARN}{GROUP}:log-stream:AllTraffic/{instance.id}"
    group, _, stream = error["LogStreamArn"].removeprefix(ARN).partition(":log-stream:")
    client = aws("logs", gateway.port)

    def said():
        asked = {"logGroupName": group, "logStreamNames": [stream], "filterPattern": "refused"}
        pages = client.get_paginator("filter_log_events")
        while not (events := [*pages.paginate(**asked).search("events[]")]):
            pass
        return events

    assert messages(await soon(asyncio.to_thread(said))) == ["refused /invocations"]
    client = await gateway.connect()
    client.writer.write(
        b"GET /endpoints/echo/invocations-bidirectional-stream HTTP/1.1\r\nHost: a\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    response = await soon(client.reader.readuntil(b"}"))
    head, _, body = response.partition(b"\r\n\r\n")
    assert b" 424 " in head
    assert json.loads(body)["LogStreamArn"] == error["LogStreamArn"]


# --- By boto3, of what lies there ----------------------------------------------------------------


def write_lines(files, lines, start=0):
    for number in range(start, start + lines):
        files.append(b"line %d\n" % number, 1_000_000 + number)


async def test_an_instance_that_is_gone_is_read_both_ways(gateway_for, data, gone):
    write_lines(gone, 25)
    gone.append(b"its last words", 2_000_000)
    gateway = await gateway_for(data=data)

    def read():
        client = aws("logs", gateway.port)
        asked = {"logGroupName": GROUP, "logStreamName": GONE_STREAM, "limit": 10}
        last = client.get_log_events(**asked)
        before = client.get_log_events(**asked, nextToken=last["nextBackwardToken"])
        first = client.get_log_events(**asked, startFromHead=True)
        again = client.get_log_events(
            **asked, nextToken=last["nextForwardToken"], startFromHead=True
        )
        assert again["events"] == []
        assert again["nextForwardToken"] == last["nextForwardToken"], "AWS: the token passed in"
        some = client.get_log_events(
            **asked, startTime=1_000_003, endTime=1_000_005, startFromHead=True
        )
        return last, before, first, some

    last, before, first, some = await asyncio.to_thread(read)
    lines = [*(f"line {number}" for number in range(25)), "its last words"]
    assert messages(last["events"]) == lines[-10:]
    assert messages(before["events"]) == lines[-20:-10]
    assert messages(first["events"]) == lines[:10]
    assert messages(some["events"]) == lines[3:5]
    assert last["events"][-1]["timestamp"] == last["events"][-1]["ingestionTime"] == 2_000_000


async def test_a_log_that_is_renamed_meanwhile_is_read_on(gateway_for, data, gone):
    line = b"x" * 999 + b"\n"
    full = OUTPUT_FILE_BYTES // len(line) + 1
    gone.append(line * full, 1)
    gateway = await gateway_for(data=data)

    def read():
        client = aws("logs", gateway.port)
        found, token, renamed = 0, {}, False
        while True:
            page = client.get_log_events(
                logGroupName=GROUP, logStreamName=GONE_STREAM, startFromHead=True, **token
            )
            if renamed and not page["events"]:
                return found
            found += len(page["events"])
            token = {"nextToken": page["nextForwardToken"]}
            if not renamed:
                gone.append(line * 100, 2)
                renamed = True

    assert await asyncio.to_thread(read) == full + 100


async def test_events_of_all_streams_by_pages_as_the_cli_tails_them(gateway_for, data, gone):
    write_lines(gone, 50)
    write_lines(PrintedFiles(data.logs, LIVING, "echo"), 50, start=25)
    gateway = await gateway_for(data=data)

    def read():
        client = aws("logs", gateway.port)
        pages = client.get_paginator("filter_log_events").paginate(
            logGroupName=GROUP, PaginationConfig={"PageSize": 7}
        )
        events = [event for page in pages for event in page["events"]]
        assert len({event["eventId"] for event in events}) == len(events) == 100
        order = [(event["timestamp"], event["logStreamName"]) for event in events]
        assert order == sorted(order)
        # ``aws logs tail --follow`` asks again from the last time that it has seen, itself meant.
        last = client.filter_log_events(logGroupName=GROUP, startTime=order[-1][0])
        assert last["events"] == events[-1:]
        asked = {"logGroupName": GROUP, "logStreamNamePrefix": "Other/"}
        some = client.filter_log_events(**asked, filterPattern='?"line 7" ?"line 8"')
        some_times = client.filter_log_events(**asked, startTime=1_000_010, endTime=1_000_012)
        return messages(some["events"]), messages(some_times["events"])

    some, some_times = await asyncio.to_thread(read)
    assert some == ["line 7", "line 8"]
    assert some_times == ["line 10", "line 11", "line 12"]


async def test_lists_of_groups_and_streams(gateway_for, data):
    for number in range(23):
        write_lines(PrintedFiles(data.logs, f"echo-A-{number:02}", "echo"), 2, start=-number)
    write_lines(PrintedFiles(data.logs, "echo-A-b-c", "echo-A"), 1)
    gateway = await gateway_for(data=data)

    def read():
        client = aws("logs", gateway.port)
        groups = client.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/")["logGroups"]
        assert [each["logGroupName"] for each in groups] == [
            GROUP, f"{GROUP}-A", "/aws/sagemaker/Endpoints/model",
        ]  # fmt: skip
        assert groups[0]["arn"] == f"{groups[0]['logGroupArn']}:*" == f"{ARN}{GROUP}:*"
        ids = [groups[1]["logGroupArn"], GROUP]
        pages = client.get_paginator("describe_log_groups").paginate(
            logGroupIdentifiers=ids, PaginationConfig={"PageSize": 1}
        )
        assert len(list(pages)) == 2
        assert client.describe_log_groups(logGroupNamePattern="s/mod")["logGroups"] == groups[2:]
        assert client.describe_log_groups(logGroupClass="DELIVERY")["logGroups"] == []

        def names(**asked):
            pages = client.get_paginator("describe_log_streams").paginate(
                **{"logGroupName": GROUP} | asked, PaginationConfig={"PageSize": 5}
            )
            return [each["logStreamName"] for page in pages for each in page["logStreams"]]

        all_of_them = [f"A/echo-A-{number:02}" for number in range(23)]
        assert names() == all_of_them
        assert names(descending=True) == all_of_them[::-1]
        assert names(orderBy="LastEventTime") == all_of_them[::-1]
        assert names(orderBy="LastEventTime", descending=True) == all_of_them
        assert names(logStreamNamePrefix="A/echo-A-1") == all_of_them[10:20]
        assert names(logGroupName=f"{GROUP}-A") == ["b/echo-A-b-c"]
        assert (
            client.describe_log_streams(logGroupName="/aws/sagemaker/Endpoints/model")["logStreams"]
            == []
        ), "an endpoint whose container somebody else runs"

    await asyncio.to_thread(read)


async def test_what_is_not_there_or_cannot_be_meant(gateway_for, data, gone):
    gone.append(b"x\n", 1)
    gateway = await gateway_for(data=data)

    def errors():
        client = aws("logs", gateway.port)
        get, find = client.get_log_events, client.filter_log_events
        for group in ("/aws/sagemaker/Endpoints/none", "echo", "/aws/sagemaker/TransformJobs"):
            asked = {"logGroupName": group}
            assert error_of(client.describe_log_streams, **asked) == NO_GROUP
            assert error_of(get, **asked, logStreamName=GONE_STREAM) == NO_GROUP
            assert error_of(find, **asked) == NO_GROUP
        for stream in (
            STREAM,
            f"AllTraffic/{GONE}",
            GONE,
            "../x",
            "Other/../x",
            "Other/" + "x" * 300,
        ):
            assert error_of(get, logGroupName=GROUP, logStreamName=stream) == NO_STREAM
            assert error_of(find, logGroupName=GROUP, logStreamNames=[stream]) == NO_STREAM
        other = "/aws/sagemaker/Endpoints/model"
        assert error_of(get, logGroupName=other, logStreamName=GONE_STREAM) == NO_STREAM
        here = {"logGroupName": GROUP}
        stream = {**here, "logStreamName": GONE_STREAM}
        token = client.get_log_events(**stream)["nextForwardToken"]
        for call, asked, said in (
            (get, {**stream, "nextToken": "x"}, "The specified nextToken is invalid."),
            (get, {**stream, "nextToken": "f/" + "9" * 56 + "/s"}, "nextToken is invalid."),
            (find, {**here, "nextToken": token}, "The specified nextToken is invalid."),
            (get, {**stream, "limit": 10_001}, "less than or equal to 10000"),
            (get, {"logStreamName": GONE_STREAM}, "Exactly one of logGroupName and "),
            (find, {**here, "logStreamNames": ["a"], "logStreamNamePrefix": "a"}, "not both"),
            (find, {**here, "startFromHead": False}, "startFromHead must be true"),
            (find, {**here, "filterPattern": "{$.a = 1}"}, "a pattern of JSON members"),
            (client.describe_log_streams,
             {**here, "orderBy": "LastEventTime", "logStreamNamePrefix": "a"}, "Cannot order by"),
            (client.describe_log_groups, {"includeLinkedAccounts": True}, "must be left out"),
            (client.describe_log_groups,
             {"logGroupNamePrefix": "a", "logGroupNamePattern": "a"}, "not both"),
        ):  # fmt: skip
            code, message = error_of(call, **asked)
            assert code == "InvalidParameterException"
            assert said in message
        code, message = error_of(client.put_log_events, **stream, logEvents=[
            {"timestamp": 1, "message": "x"}
        ])  # fmt: skip
        assert code == "UnknownOperationException"
        assert "'Logs_20140328.PutLogEvents' is not an operation of this" in message

    await asyncio.to_thread(errors)


async def test_a_gateway_that_keeps_no_logs_has_none(gateway_for):
    gateway = await gateway_for()

    def read():
        client = aws("logs", gateway.port)
        group = "/aws/sagemaker/Endpoints/model"
        assert client.describe_log_streams(logGroupName=group)["logStreams"] == []
        assert error_of(client.get_log_events, logGroupName=group, logStreamName="a/b") == NO_STREAM
        assert client.filter_log_events(logGroupName=group)["events"] == []

    await asyncio.to_thread(read)


@pytest.mark.clause("2.4-3")
async def test_who_may_read_what_is_said_by_name(gateway_for, data, gone, tmp_path):
    gone.append(b"x\n", 1)
    PrintedFiles(data.logs, LIVING, "echo").append(b"y\n", 1)
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    gateway = await gateway_for(data=data, auth="sigv4", principals=principals)

    def read():
        asked = {"logGroupName": GROUP, "logStreamName": GONE_STREAM}
        assert messages(aws("logs", gateway.port).get_log_events(**asked)["events"]) == ["x"]
        reading = aws("logs", gateway.port, READING)
        page = reading.get_log_events(**{**asked, "logStreamName": STREAM})
        # One of the endpoint's own is not there any more, so its line without an end would be too.
        assert messages(page["events"]) == ["y"]
        code, message = error_of(reading.get_log_events, **asked)
        assert code == "AccessDeniedException"
        assert message.endswith(
            "because no identity-based policy allows the logs:GetLogEvents action"
        )
        assert f"logs:GetLogEvents on resource: {ARN}{GROUP}:log-stream:{GONE_STREAM} " in message
        for call, resource in (
            (reading.describe_log_streams, f"{ARN}{GROUP}:log-stream: "),
            (reading.filter_log_events, f"{ARN}{GROUP}:log-stream: "),
        ):
            code, message = error_of(call, logGroupName=GROUP)
            assert code == "AccessDeniedException"
            assert resource in message
        code, message = error_of(reading.describe_log_groups)
        assert f"logs:DescribeLogGroups on resource: {ARN}:log-stream: " in message

    await asyncio.to_thread(read)


# --- Without a wire ------------------------------------------------------------------------------


@pytest.fixture
async def operations(data):
    there = an_endpoint("echo", a_variant(an_instance(LIVING)))
    return LogOperations(data.logs, lambda: (there,), Arns("us-east-1", "0" * 12), LoopClock())


#: One for all: the model is read once.
INPUTS = LogInputs(("DescribeLogGroups", "DescribeLogStreams", "GetLogEvents", "FilterLogEvents"))


async def ask(operations, name, identity=ANYBODY, **members):
    checked = await INPUTS.checked(name, members)
    return await operations.operations[name](checked, identity, "id")


async def test_a_line_that_an_instance_is_still_printing_comes_when_it_ends(operations, data):
    files = PrintedFiles(data.logs, LIVING, "echo")
    files.append(b"whole\nbegun", 1)
    asked = {"logGroupName": GROUP, "logStreamName": STREAM, "startFromHead": True}
    page = await ask(operations, "GetLogEvents", **asked)
    assert messages(page["events"]) == ["whole"]
    asked["nextToken"] = page["nextForwardToken"]
    files.append(b", and ended\n", 2)
    page = await ask(operations, "GetLogEvents", **asked)
    assert [(each["timestamp"], each["message"]) for each in page["events"]] == [
        (2, "begun, and ended")
    ]


async def test_rights_come_first(operations):
    nobody = Identity("nobody", may=lambda *_: False, arn="arn:nobody")
    for name, members in (
        ("DescribeLogGroups", {}),
        ("DescribeLogStreams", {"logGroupName": "none"}),
        ("GetLogEvents", {"logGroupName": "none", "logStreamName": "none"}),
        ("FilterLogEvents", {"logGroupName": "none"}),
    ):
        with pytest.raises(AccessDenied, match=f"logs:{name} on resource"):
            await ask(operations, name, nobody, **members)


class Readings:
    """Readings that hang until they are let go; on no thread, so that their order is sure."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    async def on_thread(self, _clock, _work):
        self.begun += 1
        await self.go_on.wait()
        return {}


@pytest.fixture
def readings(monkeypatch):
    readings = Readings()
    monkeypatch.setattr(logs, "on_thread", readings.on_thread)
    return readings


def asking_at_once(operations, identities):
    asking = operations.operations["DescribeLogGroups"]
    return [asyncio.ensure_future(asking({}, identity, "id")) for identity in identities]


async def test_so_many_read_at_a_time_and_one_that_hangs_is_let_go(data, readings):
    clock = FakeClock()
    operations = LogOperations(data.logs, tuple, Arns("us-east-1", "0" * 12), clock)
    asked = asking_at_once(operations, [ANYBODY] * (LOG_READS + 2))
    await eventually(lambda: len(clock.armed) == LOG_READS + 2 and readings.begun)
    assert readings.begun == LOG_READS
    clock.advance(LOG_READ_TIMEOUT)
    for each in await soon(asyncio.gather(*asked, return_exceptions=True)):
        assert isinstance(each, ApiError)
        assert (each.name, each.status) == ("ServiceUnavailableException", 503)
    assert readings.begun == LOG_READS
    readings.go_on.set()
    assert await soon(ask(operations, "DescribeLogGroups")) == {"logGroups": []}


async def test_a_principal_reads_once_at_a_time(data, readings):
    clock = FakeClock()
    operations = LogOperations(data.logs, tuple, Arns("us-east-1", "0" * 12), clock)
    one, other = (Identity(name, may=lambda *_: True) for name in ("one", "other"))
    asked = asking_at_once(operations, [one] * LOG_READS + [other])
    await eventually(lambda: len(clock.armed) == LOG_READS + 1 and readings.begun)
    assert readings.begun == 2
    readings.go_on.set()
    assert await soon(asyncio.gather(*asked)) == [{"logGroups": []}] * (LOG_READS + 1)
    assert readings.begun == LOG_READS + 1


async def test_what_cannot_be_read_is_said(operations, monkeypatch):
    def broken(_):
        raise OSError(5, "Input/output error", "/secret/place")

    monkeypatch.setattr(logs.LogStreams, "groups", broken)
    with pytest.raises(ApiError, match="the logs cannot be read: Input/output error") as refused:
        await ask(operations, "DescribeLogGroups")
    assert "secret" not in refused.value.message


ANY = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(allow_nan=False), st.text(),
    st.lists(st.text(max_size=5), max_size=2),
)  # fmt: skip
TIMES = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1), ANY)
TOKENS = st.one_of(
    st.from_regex(r"\A[fb]/[0-9]{56}/s\Z"),
    st.builds(lambda which, at: f"{which}/{at:056d}/s", st.sampled_from("fb"), st.integers(0, 20)),
    st.text(),
    ANY,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "logGroupName": st.one_of(st.just(GROUP), ANY),
        "logGroupIdentifier": st.one_of(st.just(f"{ARN}{GROUP}"), ANY),
        "logStreamName": st.one_of(st.just(GONE_STREAM), ANY),
        "logStreamNames": ANY,
        "logStreamNamePrefix": ANY,
        "startTime": TIMES,
        "endTime": TIMES,
        "limit": st.one_of(st.integers(1, 3), ANY),
        "nextToken": TOKENS,
        "startFromHead": ANY,
        "filterPattern": ANY,
        "orderBy": st.one_of(st.sampled_from(["LogStreamName", "LastEventTime"]), ANY),
        "descending": ANY,
        "logGroupNamePattern": ANY,
        "logGroupIdentifiers": ANY,
        "unknown": ANY,
    },
)


EXAMPLES = st.lists(
    st.tuples(
        st.sampled_from(
            ["DescribeLogGroups", "DescribeLogStreams", "GetLogEvents", "FilterLogEvents"]
        ),
        MEMBERS,
    ),
    min_size=5,
    max_size=10,
)


async def answered(operations, name, members):
    """The status of an answer."""
    try:
        checked = await INPUTS.checked(name, members)
        answer = await operations.operations[name](checked, ANYBODY, "id")
    except ApiError as error:
        return error.status
    json.dumps(answer)
    return 200


def test_any_input_has_an_answer_or_is_refused_by_name(data, gone):
    write_lines(gone, 5)
    statuses = []

    async def answers(examples):
        operations = LogOperations(data.logs, tuple, Arns("us-east-1", "0" * 12), LoopClock())
        for name, members in examples:
            statuses.append(await answered(operations, name, members))

    with asyncio.Runner() as runner:

        @settings(max_examples=25)
        @given(EXAMPLES)
        @example([("DescribeLogGroups", {}), ("GetLogEvents", {})])
        def check(drawn):
            runner.run(answers(drawn))

        check()
    assert set(statuses) == {200, 400}
