"""Validate objects against a version of Kubernetes; unknown members are faults.

Runs on an interpreter that has kubernetes-validate. The argument is the version, the objects come
on standard input as a JSON array, and an array of faults goes to standard output.
"""

from __future__ import annotations

import json
import sys

import kubernetes_validate

faults = []
for each in json.load(sys.stdin):
    try:
        kubernetes_validate.validate(each, sys.argv[1], strict=True)
    except kubernetes_validate.ValidationError as error:
        place = ".".join(map(str, error.path))
        faults.append(f"{each['kind']} {each['metadata']['name']}: {place}: {error.message}")
json.dump(faults, sys.stdout)
