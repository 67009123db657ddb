"""The commands of ``partway``, one module each. The list of commands imports none of them."""

from __future__ import annotations

from typing import Final

#: The purpose of each command, by its name.
COMMANDS: Final = {
    "serve": "run the gateway",
    "wait": "return once the gateway or an endpoint is ready",
    "deploy": "create or update an endpoint from an image or a command",
    "delete": "delete an endpoint, its models and its configurations",
    "endpoints": "show the state of endpoints, restart an endpoint",
    "logs": "show the output of an endpoint's instances",
    "invoke": "talk to an endpoint from the terminal",
    "transform": "send the records of files to a model",
    "backup": "back up all that was created through the API to a file",
    "restore": "replace all that was created through the API by a backup",
    "certs": "make a local CA, show how clients trust it",
    "token": "make an API key for OpenAI's clients",
    "kubeconfig": "write a kubeconfig for the gateway",
    "operator": "run models in a Kubernetes cluster",
    "fetch": "put model data into a folder",
    "dev": "run a model with a gateway and a web page",
    "conform": "check a container against the contract",
    "replay": "repeat a recorded stream and compare the answers",
}
