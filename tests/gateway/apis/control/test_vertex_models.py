"""gateway.apis.control.vertex_models: what an Environment says of a container of Vertex AI's."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.vertex_models import vertex_of, without_what_it_says
from partway.gateway.fleet.platform_interface import VertexContainer


def container(**environment):
    return {"Image": "chat:1", "Environment": environment}


def test_paths_say_that_it_is_one():
    said = container(AIP_PREDICT_ROUTE="/p", AIP_HEALTH_ROUTE="/h", AIP_HTTP_PORT="8501", A="b")
    assert vertex_of(said) == VertexContainer("/h", "/p", 8501)
    assert without_what_it_says(said) == container(A="b")
    assert vertex_of(container(AIP_PREDICT_ROUTE="/p")) == VertexContainer("", "/p", 8080)
    assert vertex_of(container(AIP_HEALTH_ROUTE="/h")) == VertexContainer("/h", "", 8080)


def test_nothing_else_does():
    for other in ({}, container(), container(AIP_HTTP_PORT="1"), container(AIP_MODE="x")):
        assert vertex_of(other) is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AIP_PREDICT_ROUTE": "predict"}, "AIP_PREDICT_ROUTE in the Environment must be a path"),
        ({"AIP_HEALTH_ROUTE": "/a\r\nb"}, "AIP_HEALTH_ROUTE in the Environment must be a path"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_HTTP_PORT": "0"}, "AIP_HTTP_PORT .* 1 to 65535"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_HTTP_PORT": "65536"}, "AIP_HTTP_PORT .* 1 to 65535"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_HTTP_PORT": "9" * 5000}, "AIP_HTTP_PORT .* 1 to 65535"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_HTTP_PORT": "²"}, "AIP_HTTP_PORT .* 1 to 65535"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_MODE": "x"}, "has AIP_MODE, which only the gateway"),
        ({"AIP_HEALTH_ROUTE": "/h", "AIP_STORAGE_URI": "x"}, "has AIP_STORAGE_URI, which only"),
    ],
)
def test_what_cannot_be(environment, said):
    with pytest.raises(ValidationException, match=said):
        vertex_of(container(**environment))
