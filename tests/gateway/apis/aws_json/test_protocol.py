"""AWS's JSON 1.1 protocol, byte by byte, through a gateway that runs."""

from __future__ import annotations

import json
import logging
from urllib.parse import urlsplit

import pytest
from botocore.credentials import Credentials

from partway.gateway.apis.aws_json.protocol import (
    aws_json,
    operation_routes,
    unknown_operation_route,
)
from partway.gateway.apis.control.errors import (
    ResourceLimitExceeded,
    SerializationException,
    UnknownOperation,
    ValidationException,
)
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY
from partway.gateway.http.routes import Leave
from partway.protocol.errors import (
    AccessDenied,
    InternalServerError,
    RequestTooLarge,
    ServiceUnavailable,
)
from tests.gateway.apis.aws_client import aws
from tests.wire.conftest import container, gateway_for

__all__ = ["container", "gateway_for"]


class Asked:
    """Operations that note what they are called with, and do what the test says."""

    def __init__(self):
        self.calls = []

    async def checked(self, operation, members):
        return {"checked": operation, **members}

    async def echo(self, members, identity, request_id):
        identity.check("sagemaker:Echo", "*")
        self.calls.append((members, identity, request_id))
        return {"Members": members, "At": 1700000000.25}

    async def list(self, members, identity, request_id):
        identity.check("sagemaker:ListEndpoints", "*")
        self.calls.append((members, identity, request_id))
        return {"Endpoints": []}

    async def nothing(self, members, identity, request_id):
        identity.check("sagemaker:Nothing", "*")
        return

    async def refuse(self, members, identity, request_id):
        raise ValidationException('Could not find model "é".')

    async def fail(self, members, identity, request_id):
        raise RuntimeError("secret")

    @property
    def routes(self):
        routes = operation_routes(
            "SageMaker",
            {
                "Echo": self.echo,
                "ListEndpoints": self.list,
                "Nothing": self.nothing,
                "Refuse": self.refuse,
                "Fail": self.fail,
            },
            self,
        )
        return (*routes, unknown_operation_route(routes))


def post(target, body=b"{}", content_type="application/x-amz-json-1.1", method="POST"):
    lines = [f"{method} / HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"X-Amz-Target: {target}"] if target else []
    lines += [f"Content-Type: {content_type}"] if content_type else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
async def asked(gateway_for):
    asked = Asked()
    asked.gateway = await gateway_for(routes=asked.routes)
    return asked


async def test_an_operation_answers_json(asked):
    response = await asked.gateway.request(post("SageMaker.Echo", '{"A": "é"}'.encode()))
    assert response.status == 200
    assert response.headers["content-type"] == "application/x-amz-json-1.1"
    assert response.body == (
        rb'{"Members":{"checked":"Echo","A":"\u00e9"},"At":1700000000.25}'
    )  # times are epoch seconds, fractions kept
    ((members, identity, request_id),) = asked.calls
    assert members == {"checked": "Echo", "A": "é"}
    assert identity.principal is None
    assert response.headers["x-amzn-requestid"] == request_id


async def test_an_operation_without_output_answers_an_empty_body(asked):
    response = await asked.gateway.request(post("SageMaker.Nothing", b""))
    assert (response.status, response.body) == (200, b"")
    assert response.headers["content-length"] == "0"


async def test_an_error_is_named_in_the_body(asked):
    response = await asked.gateway.request(post("SageMaker.Refuse"))
    assert response.status == 400
    assert response.headers["content-type"] == "application/x-amz-json-1.1"
    assert response.body == (
        rb'{"__type": "ValidationException", "message": "Could not find model \"\u00e9\".",'
        rb' "Message": "Could not find model \"\u00e9\"."}'
    )


async def test_a_fault_says_no_more_than_that_and_is_logged_with_the_requests_id(asked, caplog):
    with caplog.at_level(logging.ERROR, "partway.gateway"):
        response = await asked.gateway.request(post("SageMaker.Fail"))
    assert response.status == 500
    assert response.json["__type"] == "InternalFailure"
    assert b"secret" not in response.body
    (record,) = caplog.records
    assert response.headers["x-amzn-requestid"] in record.getMessage()
    assert record.exc_info[0] is RuntimeError


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("SageMaker.CreateTrainingJob", "'SageMaker.CreateTrainingJob' is not an operation"),
        ("SageMaker.echo", "'SageMaker.echo' is not an operation of this gateway"),
        ("AnyScaleFrontendService.RegisterScalableTarget", "RegisterScalableTarget' is not an"),
        ("", "the request has no X-Amz-Target"),
        ("x" * 1000, "xxx…' is not an operation of this gateway"),
    ],
)
async def test_an_unknown_operation_is_named_with_those_that_there_are(asked, target, said):
    response = await asked.gateway.request(post(target))
    assert response.status == 400
    error = response.json
    assert error["__type"] == "UnknownOperationException"
    assert said in error["message"]
    assert (
        "SageMaker.Echo, SageMaker.Fail, SageMaker.ListEndpoints, SageMaker.Nothing"
        in error["message"]
    )
    assert len(error["message"]) < 500


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-amz-json-1.1", 200),
        ("Application/X-Amz-JSON-1.1; charset=utf-8", 200),
        ("application/x-amz-json-1.0", 200),
        ("application/json", 200),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("", 400),
    ],
)
async def test_only_json_is_read(asked, content_type, status):
    response = await asked.gateway.request(post("SageMaker.Echo", content_type=content_type))
    assert response.status == status
    if status == 400:
        assert response.json["__type"] == "UnknownOperationException"
        assert asked.calls == []


async def test_what_is_no_json_is_a_serialization_exception(asked):
    response = await asked.gateway.request(post("SageMaker.Echo", b'{"A":'))
    assert (response.status, response.json["__type"]) == (400, "SerializationException")


async def test_a_body_is_gathered_up_to_a_bound(asked):
    most = b'{"A":"' + b"a" * (MAX_CONTROL_BODY - 8) + b'"}'
    assert (await asked.gateway.request(post("SageMaker.Nothing", most))).status == 200
    response = await asked.gateway.request(post("SageMaker.Nothing", most + b" "))
    assert response.status == 400
    assert response.json["__type"] == "RequestEntityTooLargeException"


async def test_another_method_has_no_operation(asked):
    response = await asked.gateway.request(post("SageMaker.Echo", method="PUT"))
    assert response.status == 404


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (ValidationException("a"), 400, "ValidationException"),
        (SerializationException("a"), 400, "SerializationException"),
        (UnknownOperation("a"), 400, "UnknownOperationException"),
        (ResourceLimitExceeded("a"), 400, "ResourceLimitExceeded"),
        (AccessDenied("a"), 400, "AccessDeniedException"),
        (RequestTooLarge("a"), 400, "RequestEntityTooLargeException"),
        (InternalServerError("a"), 500, "InternalFailure"),
        (ServiceUnavailable("a"), 503, "ServiceUnavailable"),
    ],
)
def test_errors_have_the_names_and_statuses_of_the_protocol(error, status, name):
    response = aws_json(error)
    assert response.status == status
    expected = {"__type": name, "message": "a", "Message": "a"}
    assert json.loads(response.body) == expected


def test_each_operation_checks_its_sender_and_what_reads_changes_nothing():
    async def operation(*_):
        raise NotImplementedError

    names = ("CreateModel", "DeleteTags", "DescribeModel", "FilterLogEvents", "GetLogEvents")
    routes = operation_routes("Logs", dict.fromkeys(names, operation), Asked(), "logs")
    for route in routes:
        assert route.leave is Leave.OF_OPERATION
        assert route.control
        assert route.action == f"logs:{route.name}"
    assert [route.name for route in routes if route.changes] == ["CreateModel", "DeleteTags"]


# --- Who may -------------------------------------------------------------------------------------

PRINCIPALS = """
[[principals]]
name = "deployment"
actions = ["sagemaker:*"]
[[principals.keys]]
access_key_id = "AKIDDEPLOYMENT"
secret_access_key = "deployments"

[[principals]]
name = "chat"
[[principals.keys]]
access_key_id = "AKIDCHAT"
secret_access_key = "chats"
"""


@pytest.fixture
async def signing(gateway_for, tmp_path):
    """Operations of a gateway that asks who asks."""
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    asked = Asked()
    asked.gateway = await gateway_for(auth="sigv4", principals=path, routes=asked.routes)
    return asked


def presigned(gateway, key, secret):
    """A request that lists endpoints, by a URL that botocore has presigned."""
    client = aws("sagemaker", gateway.port, Credentials(key, secret))
    url = urlsplit(client.generate_presigned_url("list_endpoints", ExpiresIn=300))
    head = post("SageMaker.ListEndpoints", b"").replace(
        b"Host: localhost", f"Host: {url.netloc}".encode()
    )
    return head.replace(b"POST / ", f"POST /?{url.query} ".encode())


async def test_a_presigned_url_of_botocores_lists(signing):
    listed = presigned(signing.gateway, "AKIDDEPLOYMENT", "deployments")
    assert (await signing.gateway.request(listed)).status == 200
    ((members, identity, _),) = signing.calls
    assert (members, identity.principal) == ({"checked": "ListEndpoints"}, "deployment")


async def test_who_may_invoke_alone_may_not_list(signing):
    response = await signing.gateway.request(presigned(signing.gateway, "AKIDCHAT", "chats"))
    assert (response.status, response.json["__type"]) == (400, "AccessDeniedException")
    assert response.json["message"] == (
        "User: arn:aws:sts::000000000000:federated-user/chat is not authorized to perform: "
        "sagemaker:ListEndpoints on resource: * because no identity-based policy allows the "
        "sagemaker:ListEndpoints action"
    )


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.1:8090"])
async def test_a_page_whose_name_is_made_to_point_here_changes_nothing(asked, host):
    request = post("SageMaker.Echo").replace(b"Host: localhost", f"Host: {host}".encode())
    response = await asked.gateway.request(request)
    assert (response.status, response.json["__type"]) == (400, "AccessDeniedException")
    assert "Host must be a loopback address of this machine" in response.json["message"]
    assert asked.calls == []
