"""The role of the docs has the rights that the operator needs, and no others."""

from __future__ import annotations

import re

from partway.gateway.operator.cluster_check import NEEDED
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "run-on-kubernetes.md").read_text("utf-8")
_RULE = re.compile(r"- \{apiGroups: \[(.*?)\], resources: \[(.*?)\], verbs: \[(.*?)\]\}")


def test_the_role_of_the_page():
    rules = {
        (group.strip('"'), resource): tuple(verbs.split(", "))
        for group, resource, verbs in _RULE.findall(PAGE)
    }
    assert rules == dict(NEEDED)
