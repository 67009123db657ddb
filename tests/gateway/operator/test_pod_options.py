"""partway.gateway.operator.pod_options: each annotation, in its form and in others."""

from __future__ import annotations

import dataclasses

import pytest

from partway.gateway.operator.pod_options import ANNOTATIONS, PodOptions, pod_options
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference" / "custom-resources.md").read_text("utf-8")


def read(**given: str):
    names = {f"partway.dev/{name.replace('_', '-')}": text for name, text in given.items()}
    return pod_options({**names, "example.com/replicas": "x"})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("replicas", "0", 0),
        ("replicas", "1000", 1000),
        ("requests", "cpu=500m,memory=1.5Gi", {"cpu": "500m", "memory": "1.5Gi"}),
        ("limits", "nvidia.com/gpu=2", {"nvidia.com/gpu": "2"}),
        ("node-selector", "a=b, example.com/c=", {"a": "b", "example.com/c": ""}),
        (
            *("tolerations", "nvidia.com/gpu:NoSchedule,pool=models:NoExecute"),
            (
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "pool", "operator": "Equal", "value": "models", "effect": "NoExecute"},
            ),
        ),
        ("model-volume", "models", ("models", "")),
        ("model-volume", "models/chat/3/", ("models", "chat/3")),
        ("service-account", "models", "models"),
        ("startup-seconds", "900", 900),
        ("drain-seconds", "1800", 1800),
        ("drain-seconds", "0", 0),
        ("termination-seconds", "300", 300),
    ],
)
def test_what_is_read(name, text, value):
    options, faults = read(**{name: text})
    assert faults == []
    expected = dataclasses.replace(PodOptions(), **{ANNOTATIONS[name].option: value})
    assert options == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("replicas", each) for each in ("", "-1", "1001", "1.0", "²", "0000000005", "9" * 5000)),
        *(("limits", each) for each in ("", "cpu", "cpu=", "cpu=a", "cpu=1,", "cpu=-1", "=1")),
        *(("node-selector", each) for each in ("a", "a=b=c", "a=b;c=d", "-a=b")),
        *(("tolerations", each) for each in ("a", "a:Never", "a=b", ":NoSchedule")),
        *(("model-volume", each) for each in ("", "/a", "a/../b", "A", "a//", "a/b,c")),
        *(("service-account", each) for each in ("", "a b", "a,b")),
        *(("startup-seconds", each) for each in ("0", "86401", "ten")),
    ],
)
def test_another_form_is_refused_by_name(name, text):
    _, (fault,) = read(**{name: text})
    assert fault["field"] == f"metadata.annotations.partway.dev/{name}"
    assert fault["message"].endswith(f"was given; it must be {ANNOTATIONS[name].form}")


def test_an_unknown_one_is_refused():
    _, (fault,) = read(gpus="1")
    assert fault["message"] == f"unknown; there are: {', '.join(ANNOTATIONS)}"


def test_each_option_has_an_annotation():
    fields = {each.name for each in dataclasses.fields(PodOptions)}
    assert {each.option for each in ANNOTATIONS.values()} == fields


def test_the_reference_has_each_annotation():
    rows = [f"| `partway.dev/{name}` | {it.form} | {it.what} |" for name, it in ANNOTATIONS.items()]
    assert [line for line in PAGE.splitlines() if line.startswith("| `partway.dev/")] == rows
