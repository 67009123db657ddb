"""Evaluate a ValidatingAdmissionPolicy; MANIFESTS_PYTHON runs this, which has cel-python.

Standard input: JSON with ``policy`` and ``requests``, each of which has ``request``, ``object`` and
``oldObject``. Standard output: for each request a list of messages, empty if it is admitted.
"""

import json
import sys

import celpy


def evaluated(expression, names):
    environment = celpy.Environment()
    return environment.program(environment.compile(expression)).evaluate(names)


def messages(spec, names):
    names = {name: celpy.json_to_cel(value) for name, value in names.items()}
    if not all(evaluated(each["expression"], names) for each in spec["matchConditions"]):
        return []
    variables = celpy.celtypes.MapType()
    for each in spec["variables"]:
        key = celpy.celtypes.StringType(each["name"])
        variables[key] = evaluated(each["expression"], {**names, "variables": variables})
    names["variables"] = variables
    return [
        each["message"] for each in spec["validations"] if not evaluated(each["expression"], names)
    ]


given = json.load(sys.stdin)
json.dump([messages(given["policy"]["spec"], each) for each in given["requests"]], sys.stdout)
