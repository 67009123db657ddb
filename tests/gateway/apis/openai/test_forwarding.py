"""OpenAI's paths: requests go to the container's own, and its answers come back unchanged."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from types import FrameType

import aiohttp
import pytest

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.protocol.openai.request_model import Taken
from partway.protocol.signatures.api_keys import make_api_key
from partway.protocol.signatures.verification import Credentials
from tests.gateway.apis.openai.engine import (
    BELOW_ENDPOINT,
    BY_MODEL,
    KEY_ID,
    SECRET,
    TOKEN,
    answer,
    asking,
    authenticated,
)
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, PATIENCE
from tests.wire.peers import ENDPOINT, eventually

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

CHAT = "/chat/completions"
EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def api_key(**changes) -> str:
    return make_api_key(Credentials(KEY_ID, SECRET), region="us-east-1", now=time.time(), **changes)


@pytest.mark.parametrize("base", [BELOW_ENDPOINT, f"/a/base{BELOW_ENDPOINT}"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_method_path_query_and_body_go_to_the_container(asking, base, method):
    client = await asking()
    body = b'{"model": "m", "x": \x00'
    await client.ask(f"{base}/a/b%20c?d=e+f&d=%2F&g", body, method, Content_Type="a/b")
    head = client.engine.heads[0]
    assert head.startswith(f"{method} /v1/a/b%20c?d=e+f&d=%2F&g HTTP/1.1\r\n")
    assert "Content-Type: a/b\r\n" in head
    assert client.engine.bodies == [body]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_method_without_a_body(asking, method):
    client = await asking()
    status, _, _ = await client.ask(f"{BELOW_ENDPOINT}/responses/r-1", None, method)
    assert status == 200
    assert client.engine.heads[0].startswith(f"{method} /v1/responses/r-1 HTTP/1.1\r\n")
    assert client.engine.bodies == [b""]


async def test_an_inference_component_is_named_to_the_container(asking):
    client = await asking()
    path = f"/endpoints/{ENDPOINT}/inference-components/part-1/openai/v1{CHAT}"
    await client.ask(path, {})
    assert "X-Amzn-SageMaker-Inference-Component: part-1\r\n" in client.engine.heads[0]
    status, error = await client.error(path.replace("part-1", "a%20b"), {})
    assert (status, error["code"]) == (400, "validation_error")
    assert "InferenceComponentName" in error["message"]


async def test_credentials_stay_here(asking):
    client = await asking()
    await client.ask(
        f"{BELOW_ENDPOINT}{CHAT}?access_token=secret&a=b&X-Amz-Signature=secret",
        {},
        Authorization="Bearer secret",
        Cookie="secret",
        X_Other="secret",
        OpenAI_Api_Key="secret",
        Anthropic_Auth_Token="secret",
        Connection="x-stainless-os",
        X_Stainless_Os="secret",
        OpenAI_Beta="realtime=v1",
        X_Stainless_Lang="python",
    )
    (head,) = client.engine.heads
    assert "secret" not in head
    assert head.startswith(f"POST /v1{CHAT}?a=b HTTP/1.1\r\n")
    assert "OpenAI-Beta: realtime=v1\r\n" in head
    assert "X-Stainless-Lang: python\r\n" in head


@pytest.mark.parametrize("path", [BELOW_ENDPOINT, BY_MODEL])
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found", b"429 Busy", b"503 Busy"])
async def test_status_and_body_pass_through_unwrapped(asking, caplog, path, status):
    caplog.set_level("INFO", "partway.stream")
    client = await asking()
    passed = [b"Retry-After: 3", b"retry-after-ms: 30", b"x-ratelimit-limit-tokens: 7"]
    said = b'{"error": {"message": "slow down", "code": "rate_limit"}}'
    client.engine.says = answer(
        *(said, b"Content-Type: application/json", *passed, b"Set-Cookie: not=this"),
        status=status,
    )
    found, headers, body = await client.ask(path + CHAT, {"model": ENDPOINT})
    assert (found, body) == (int(status[:3]), said)
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(said))
    for each in passed:
        name, _, value = each.decode().partition(": ")
        assert headers[name] == value
    assert "Set-Cookie" not in headers
    assert headers["x-request-id"] == headers["x-amzn-requestid"]
    _, _, metrics = await client.ask("/metrics", None, "GET")
    assert b'status="%b"' % status[:3] in metrics
    assert f"cause=completed status={int(status[:3])}" in caplog.text


async def test_the_containers_own_request_id_stays(asking):
    client = await asking()
    client.engine.says = answer(b"", b"X-Request-Id: of-the-engine")
    _, headers, _ = await client.ask(BELOW_ENDPOINT + CHAT, {})
    assert headers.getall("x-request-id") == ["of-the-engine"]


async def test_an_event_comes_at_once(asking):
    taken = asyncio.Event()

    async def script(call):
        await call.request()
        call.say(EVENTS + b"9\r\ndata: a\n\n\r\n")
        await taken.wait()
        call.say(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await call.end()

    client = await asking(script=script)
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.post(f"{client.url}{BELOW_ENDPOINT}{CHAT}", json={"stream": True}) as response,
    ):
        assert await response.content.readany() == b"data: a\n\n"
        taken.set()
        assert await response.content.read() == b"data: [DONE]\n\n"


async def test_events_that_break_off_end_with_the_reason(asking):
    async def script(call):
        await call.request()
        call.say(EVENTS + b"9\r\ndata: a\n\n\r\n")

    client = await asking(script=script)
    _, _, said = await client.ask(BELOW_ENDPOINT + CHAT, {"stream": True})
    first, error = said.split(b"\n\n", 1)
    assert first == b"data: a"
    found = json.loads(error.removeprefix(b"data: "))["error"]
    assert (found["type"], found["code"]) == ("server_error", "model_error")
    assert "the connection ended in the middle of the body" in found["message"]


async def test_an_event_that_breaks_off_in_its_middle_is_not_whole_for_the_client(asking):
    async def script(call):
        await call.request()
        call.say(EVENTS + b"8\r\ndata: a\n\r\n")

    client = await asking(script=script)
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.ask(BELOW_ENDPOINT + CHAT, {"stream": True})


async def test_events_with_a_length_may_end_with_an_error_too(asking):
    """The length is not the client's: the next response would begin within this one."""

    async def script(call):
        await call.request()
        call.say(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 60\r\n\r\n"
            b"data: a\n\n"
        )

    client = await asking(script=script)
    _, headers, said = await client.ask(BELOW_ENDPOINT + CHAT, {"stream": True})
    assert "Content-Length" not in headers
    assert said.startswith(b'data: a\n\ndata: {"error":')


async def test_events_with_a_coding_that_break_off_are_not_whole(asking):
    async def script(call):
        await call.request()
        call.say(EVENTS[:-2] + b"Content-Encoding: gzip\r\n\r\n2\r\n\n\n\r\n")

    client = await asking(script=script)
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.ask(BELOW_ENDPOINT + CHAT, {"stream": True})


async def test_an_answer_without_a_body_has_no_length(asking):
    client = await asking()
    client.engine.says = b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"
    status, headers, _ = await client.ask(f"{BELOW_ENDPOINT}/files/f-1", None, "DELETE")
    assert status == 204
    assert "Content-Length" not in headers


async def test_a_header_that_comes_twice_is_passed_once(asking):
    client = await asking()
    kinds = b"Content-Type: application/json", b"content-TYPE: text/html"
    client.engine.says = answer(b"{}", *kinds)
    _, headers, _ = await client.ask(BELOW_ENDPOINT + CHAT, {})
    assert headers.getall("Content-Type") == ["application/json"]


async def test_the_first_endpoint_of_a_path_counts(asking):
    client = await asking(endpoints=(ENDPOINT, "other"))
    rest = "endpoints/other/openai/v1/x"
    for path in (f"{BELOW_ENDPOINT}/{rest}", f"/openai/v1{BELOW_ENDPOINT}/{rest}"):
        assert (await client.ask(path, {}))[0] == 200
        assert client.engine.heads[-1].startswith(f"POST /v1/{rest} HTTP/1.1\r\n")
    _, _, metrics = await client.ask("/metrics", None, "GET")
    assert set(re.findall(rb'partway_invocations_total{endpoint="(\w+)"', metrics)) == {b"model"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
async def test_a_web_page_s_request_without_origin(asking, authenticated, site):
    """An image's, or a page's whose name was pointed here."""
    for settings, refused in (({}, 403), (authenticated, 401)):
        client = await asking(**settings)
        for path in (f"{BY_MODEL}/models", f"{BELOW_ENDPOINT}/files", f"{BY_MODEL}/models/other"):
            status, _ = await client.error(path, None, "GET", Sec_Fetch_Site=site)
            assert status == refused
        assert client.engine.heads == []
    token = {"Authorization": f"Bearer {TOKEN}", "Sec_Fetch_Site": site}
    assert (await client.ask(f"{BELOW_ENDPOINT}/files", None, "GET", **token))[0] == 200


async def test_no_session_begins_here(asking):
    client = await asking()
    header = {"X_Amzn_SageMaker_Session_Id": "NEW_SESSION"}
    status, error = await client.error(BELOW_ENDPOINT + CHAT, {}, **header)
    assert (status, error["code"]) == (400, "validation_error")


def frames_of(module: str) -> list[FrameType]:
    """The frames of suspended coroutines of a module."""
    found = []
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        while coroutine is not None:
            frame = getattr(coroutine, "cr_frame", None)
            if frame is not None and frame.f_code.co_filename.endswith(module):
                found.append(frame)
            coroutine = getattr(coroutine, "cr_await", None)
    return found


async def test_the_body_s_quota_is_held_only_until_the_container_has_it(asking):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(call):
        await call.request()
        call.say(EVENTS + b"9\r\ndata: a\n\n\r\n")
        asked.set()
        await go_on.wait()
        call.say(b"0\r\n\r\n")

    client = await asking(script=script)
    gathered = client.gateway.gateway.dispatcher._gathered
    body = {"model": ENDPOINT, "x": "a" * 100_000}
    asking_it = asyncio.create_task(client.ask(BY_MODEL + CHAT, body))
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
        await eventually(lambda: not gathered.used)
    held = [value for frame in frames_of("forwarding.py") for value in frame.f_locals.values()]
    assert held
    assert not [each for each in held if isinstance(each, bytes | Taken) and each]
    go_on.set()
    await asking_it


# --- The endpoint in the model -------------------------------------------------------------------


async def test_the_model_names_the_endpoint_and_goes_on_empty(asking):
    client = await asking(endpoints=(ENDPOINT, "other"))
    form = aiohttp.FormData()
    form.add_field("model", "other")
    form.add_field("file", b"\r\n--\x00", filename="a.wav")
    sent = await form().as_bytes()
    boundary = sent.partition(b"\r\n")[0][2:].decode()
    form_type = f"multipart/form-data; boundary={boundary}"
    await client.ask(BY_MODEL + CHAT, {"n": 1, "model": ENDPOINT})
    await client.ask(f"{BY_MODEL}/audio/transcriptions", sent, Content_Type=form_type)
    await client.ask(f"{BY_MODEL}/responses/r-1?model={ENDPOINT}&a=b", None, "GET")
    heads, bodies = client.engine.heads, client.engine.bodies
    assert bodies[0] == b'{"n":1,"model":""}'
    assert heads[1].startswith("POST /v1/audio/transcriptions HTTP/1.1\r\n")
    assert bodies[1] == sent.replace(b"other", b"")
    assert heads[2].startswith("GET /v1/responses/r-1?model=&a=b HTTP/1.1\r\n")
    _, _, metrics = await client.ask("/metrics", None, "GET")
    found = re.findall(rb'partway_invocations_total{endpoint="(\w+)".*} (\S+)', metrics)
    assert dict(found) == {b"model": b"2.0", b"other": b"1.0"}


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", CHAT, {}, "model: it is missing"),
        ("POST", CHAT, {"model": ""}, "model: it is empty"),
        ("POST", CHAT, b"x", "the body must be a JSON object"),
        ("GET", "/responses/r-1", None, "model: it is missing"),
        ("POST", CHAT, {"model": "none"}, "Endpoint none of account 000000000000 not found."),
        ("POST", CHAT, {"model": "a b"}, "letters, digits and hyphens"),
        ("POST", "", {"model": ENDPOINT}, "the container's path must be"),
        ("POST", "/a/%2e%2e/b", {"model": ENDPOINT}, "the container's path must be"),
        *(
            ("POST", path, {"model": ENDPOINT}, "the container's path must be")
            for path in (
                *("/a//b", "/a%2f..%2fb", "/..;/b", "/a%5cb", "/%252e%252e/b", "/a%00", "/a%0d%0a"),
                *("/a%zz", "/a/."),
            )
        ),
    ],
)
async def test_a_refusal_has_the_form_that_openai_s_clients_read(asking, method, path, body, says):
    client = await asking()
    status, error = await client.error(BY_MODEL + path, body, method)
    assert status == 400
    assert says in error["message"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "validation_error"
    assert client.engine.heads == []


async def test_an_unknown_endpoint_in_the_path_is_400_as_on_aws(asking):
    client = await asking()
    status, error = await client.error(f"/endpoints/none/openai/v1{CHAT}", {})
    assert (status, error["code"]) == (400, "validation_error")


async def test_endpoints_are_models(asking):
    client = await asking(endpoints=("other", ENDPOINT))
    status, _, said = await client.ask(f"{BY_MODEL}/models", None, "GET")
    models = json.loads(said)
    assert (status, models["object"]) == (200, "list")
    assert [each["id"] for each in models["data"]] == sorted([ENDPOINT, "other"])
    status, _, said = await client.ask(f"{BY_MODEL}/models/other", None, "GET")
    assert json.loads(said) == {
        "id": "other",
        "object": "model",
        "created": 0,
        "owned_by": "partway",
    }
    status, _ = await client.error(f"{BY_MODEL}/models/none", None, "GET")
    assert status == 400


async def test_a_container_that_ends_the_connection_is_502(asking):
    async def script(call):
        await call.request()

    client = await asking(script=script)
    status, error = await client.error(BELOW_ENDPOINT + CHAT, {})
    assert (status, error["type"], error["code"]) == (502, "server_error", "model_error")
    assert error["message"] == (
        "the container gave no whole answer: the connection ended before the head of an answer"
    )


async def test_a_container_that_is_gone_is_told_in_plain_words(asking, gateway_for):
    client = await asking(endpoints=())
    with socket.create_server((HOST, 0)) as free:
        address = Address(HOST, free.getsockname()[1])
    client.gateway = await gateway_for(
        endpoints=(Endpoint.attached(ENDPOINT, address, StreamPolicy()),)
    )
    status, error = await client.error(BELOW_ENDPOINT + CHAT, {})
    assert (status, error["code"]) == (502, "model_error")
    assert error["message"] == "no connection with the container: Connection refused"


# --- Who may -------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [BELOW_ENDPOINT, BY_MODEL])
async def test_tokens_and_api_keys_open_these_paths(asking, authenticated, base):
    client = await asking(**authenticated)
    for token in (TOKEN, api_key()):
        status, _, _ = await client.ask(
            base + CHAT, {"model": ENDPOINT}, Authorization=f"Bearer {token}"
        )
        assert status == 200
    assert len(client.engine.heads) == 2


@pytest.mark.parametrize("base", [BELOW_ENDPOINT, BY_MODEL])
@pytest.mark.parametrize(
    ("token", "status", "says"),
    [
        ("", 401, "Missing Authentication Token; `partway token` makes an API key"),
        ("nobody-has-this-token", 401, "a principal's tokens; `partway token` makes an API key"),
        ("sagemaker-api-key-x", 401, "the API key cannot be read"),
        (f"{TOKEN}-who-may-not", 403, "is not authorized to perform: sagemaker:InvokeEndpoint"),
        (f"{TOKEN}-for-another", 403, "is not authorized to perform: sagemaker:InvokeEndpoint"),
    ],
)
async def test_others_may_not(asking, authenticated, base, token, status, says):
    client = await asking(**authenticated)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    found, error = await client.error(base + CHAT, {"model": ENDPOINT}, **headers)
    assert found == status
    assert says in error["message"]
    assert client.engine.heads == []


async def test_an_api_key_opens_no_other_path(asking, authenticated):
    client = await asking(**authenticated)
    for path in (f"/endpoints/{ENDPOINT}/invocations", f"/v1/models/{ENDPOINT}:predict"):
        status, _, _ = await client.ask(path, {}, Authorization=f"Bearer {api_key()}")
        assert 400 <= status <= 403
    assert client.engine.heads == []


async def test_only_models_that_the_caller_may_invoke_are_listed(asking, authenticated):
    client = await asking(endpoints=(ENDPOINT, "other"), **authenticated)
    listed = {}
    for suffix in ("", "-who-may-not", "-for-another"):
        token = f"Bearer {TOKEN}{suffix}"
        _, _, said = await client.ask(f"{BY_MODEL}/models", None, "GET", Authorization=token)
        listed[suffix] = {each["id"] for each in json.loads(said)["data"]}
    assert listed == {"": {ENDPOINT, "other"}, "-who-may-not": set(), "-for-another": {"other"}}
