"""Settings of how containers are asked for predictions."""

from __future__ import annotations

import pytest

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.prediction import (
    INVOCATIONS,
    PredictionPolicy,
    SignatureTable,
    TensorTable,
    is_route,
)
from partway.gateway.settings.settings import load


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
    config.write_text(
        endpoint + "[endpoints.a.prediction.signature.inputs]\n"
        'tag = { type = "string" }\nimage = { type = "uint8", shape = [-1, 3] }\n'
        '[endpoints.a.prediction.signature]\nname = "other"\noutputs = { y = { type = "bool" } }\n'
    )
    inputs = {"tag": TensorTable("string"), "image": TensorTable("uint8", (-1, 3))}
    signature = SignatureTable(inputs, {"y": TensorTable("bool")}, "other")
    assert load({}, {}, config).endpoints[0].prediction == PredictionPolicy(signature=signature)
    config.write_text(endpoint)
    assert load({}, {}, config).endpoints[0].prediction == PredictionPolicy()
    config.write_text(endpoint + 'prediction = { route = "p", wrap = "x" }')
    with pytest.raises(SettingsError) as caught:
        load({}, {}, config)
    first, second = str(caught.value).splitlines()
    assert "endpoints.a.prediction.route: 'p' was given; it must be a path" in first
    assert "endpoints.a.prediction.wrap: 'x' was given" in second


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("{}", "signature.inputs: this key is missing"),
        ("{ inputs = {} }", "signature.inputs: it is empty; it must have at least one tensor"),
        ('{ inputs = { x = { type = "float" } } }', "signature.inputs.x.type: 'float' was given"),
        (
            '{ inputs = { x = { type = "bool", shape = [-2] } } }',
            "x.shape#1: -2 was given",
        ),
        ('{ inputs = { "a b" = { type = "bool" } } }', "must be a tensor's alias"),
    ],
)
def test_what_cannot_be_a_signature(tmp_path, signature, said):
    config = tmp_path / "partway.toml"
    config.write_text(
        f'[endpoints.a]\nurl = "http://127.0.0.1:1"\nprediction.signature = {signature}\n'
    )
    with pytest.raises(SettingsError) as caught:
        load({}, {}, config)
    assert said in str(caught.value)
