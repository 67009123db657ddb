"""Label selectors and field selectors, as Kubernetes writes them."""

from __future__ import annotations

import pytest

from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.errors import BadKubernetesRequest
from partway.gateway.apis.kubernetes.limits import MAX_SELECTOR, MAX_SELECTOR_TERMS
from partway.gateway.apis.kubernetes.selectors import selector_of


def means(labels, selector, kind="labelSelector"):
    each = CustomObject(ENDPOINT, "space", "name", "uid", 1, 1, "", labels=labels)
    return selector_of({kind: selector})(each)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=chat", True),
        ("app==chat", True),
        ("app = chat , tier != test", True),
        ("app!=chat", False),
        ("app=other", False),
        ("none!=x", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("app in (chat,other)", True),
        ("app in (other)", False),
        ("app notin (other, another)", True),
        ("none notin (x)", True),
        ("app in (chat),example.com/x=1", True),
        ("app=", False),
    ],
)
def test_labels(selector, expected):
    assert means({"app": "chat", "example.com/x": "1"}, selector) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=name", True),
        ("metadata.name==name,metadata.namespace!=other", True),
        ("metadata.name!=name", False),
        ("metadata.namespace=other", False),
    ],
)
def test_fields(selector, expected):
    assert means({}, selector, "fieldSelector") is expected


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("labelSelector", "app=a b"),
        ("labelSelector", "app in chat"),
        ("labelSelector", "=x"),
        ("labelSelector", "a=b;c=d"),
        ("labelSelector", "a" * (MAX_SELECTOR + 1)),
        ("labelSelector", ",".join(["!a"] * (MAX_SELECTOR_TERMS + 1))),
        ("fieldSelector", "spec.id=x"),
        ("fieldSelector", "metadata.name"),
    ],
)
def test_what_cannot_be_read_is_refused(kind, selector):
    with pytest.raises(BadKubernetesRequest) as caught:
        means({}, selector, kind)
    assert kind in caught.value.message
