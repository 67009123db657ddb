"""Paths that end as OpenAI's do, below a wrong base URL."""

from __future__ import annotations

import pytest

from tests.gateway.apis.openai.engine import asking, authenticated
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "authenticated", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.mark.parametrize(
    "base",
    [
        "",
        "/v1",
        "/openai",
        f"/endpoints/{ENDPOINT}",
        f"/endpoints/{ENDPOINT}/v1",
        f"/a/base/endpoints/{ENDPOINT}/openai",
        f"/endpoints/{ENDPOINT}/invocations/v1",
    ],
)
async def test_a_wrong_base_url_is_told_the_right_one(asking, authenticated, base):
    for settings in ({}, authenticated):
        client = await asking(**settings)
        for path in ("/chat/completions", "/completions", "/embeddings", "/audio/speech"):
            status, error = await client.error(base + path, {})
            assert (status, error["type"]) == (404, "invalid_request_error")
            assert error["message"] == (
                "no operation answers POST on this path; the base URL of OpenAI's clients must "
                "end with /endpoints/NAME/openai/v1, or with /openai/v1 where the model is NAME"
            )
        assert client.engine.heads == []


async def test_other_unknown_paths_have_aws_s_form(asking):
    client = await asking()
    for path in (f"/endpoints/{ENDPOINT}/v1/others", "/a/models", "/chat"):
        _, headers, said = await client.ask(path, {})
        assert headers["x-amzn-ErrorType"] == "UnknownOperationException"
        assert b'"Message": ' in said
