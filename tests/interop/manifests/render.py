"""Render a chart with Helm's own engine, and validate objects against versions of Kubernetes.

Runs on an interpreter that has helm-python-sdk and kubernetes-validate. The request is one JSON
object on standard input, and so is the answer on standard output::

    {"render": CHART, "values": {…}} → {"files": {PATH: YAML}} or {"error": TEXT}
    {"lint": CHART, "values": {…}} → {"messages": [TEXT]}
    {"validate": [OBJECT, …], "version": "1.37"} → {"faults": [TEXT]}
"""

from __future__ import annotations

import json
import sys
from typing import Any


def render(request: dict[str, Any]) -> dict[str, Any]:
    import helm_python

    with helm_python.Chart.load(request["render"]) as chart:
        try:
            chart.validate_schema(request["values"])
            files = chart.render(request["values"], name="partway", namespace="models")
        except helm_python.HelmError as error:
            return {"error": str(error)}
    return {"files": files}


def lint(request: dict[str, Any]) -> dict[str, Any]:
    import helm_python

    found = helm_python.lint(request["lint"], request["values"], strict=True)
    texts = [f"{each['path']}: {each['error']}" for each in found["messages"]]
    return {"messages": texts + found["errors"]}


def validate(request: dict[str, Any]) -> dict[str, Any]:
    import kubernetes_validate

    faults = []
    for each in request["validate"]:
        try:
            kubernetes_validate.validate(each, request["version"], strict=True)
        except kubernetes_validate.ValidationError as error:
            place = ".".join(map(str, error.path))
            faults.append(f"{each['kind']} {each['metadata']['name']}: {place}: {error.message}")
    return {"faults": faults}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    for name, answer in (("render", render), ("lint", lint), ("validate", validate)):
        if name in asked:
            json.dump(answer(asked), sys.stdout)
