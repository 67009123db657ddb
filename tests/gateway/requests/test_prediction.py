"""Settings of how containers are asked for predictions."""

from __future__ import annotations

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.requests.prediction import INVOCATIONS, PredictionPolicy, is_route
from partway.gateway.settings import load


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


@pytest.mark.parametrize(
    ("path", "good"),
    [
        (INVOCATIONS, True),
        ("/v1/models/model:predict", True),
        ("/a/..", False),
        ("/./a", False),
        ("a", False),
        ("/a b", False),
        ("/a?b=c", False),
        ("//a", False),
        ("/", False),
        ("/a\r\nX: y", False),
        ("/" + "a" * 512, False),
    ],
)
def test_what_a_route_is(path, good):
    assert is_route(path) == good


def test_an_endpoints_table(tmp_path):
    config = tmp_path / "partway.toml"
    endpoint = '[endpoints.a]\nurl = "http://127.0.0.1:1"\n'
    config.write_text(endpoint + '[endpoints.a.prediction]\nroute = "/p"\nwrap = "data"\n')
    assert load({}, {}, config).endpoints[0].prediction == PredictionPolicy("/p", "data")
    config.write_text(endpoint)
    assert load({}, {}, config).endpoints[0].prediction == PredictionPolicy()
    config.write_text(endpoint + 'prediction = { route = "p", wrap = "x" }')
    with pytest.raises(SettingsError) as caught:
        load({}, {}, config)
    first, second = str(caught.value).splitlines()
    assert "endpoints.a.prediction.route: 'p' was given; it must be a path" in first
    assert "endpoints.a.prediction.wrap: 'x' was given" in second
