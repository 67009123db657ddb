"""The commands of ``partway``, one module each. The list of commands imports none of them."""

from __future__ import annotations

from typing import Final

#: The purpose of each command, by its name.
COMMANDS: Final = {
    "serve": "run the gateway",
    "wait": "return once the gateway or an endpoint is ready",
    "deploy": "make an endpoint of an image or a command, or update it",
    "delete": "delete an endpoint, with what was deployed for it",
    "endpoints": "show how endpoints are, start one anew",
    "logs": "show what an endpoint's instances have printed",
    "invoke": "talk to an endpoint from the terminal",
    "transform": "ask a model for the records of files",
    "backup": "write what was created through the API to a file",
    "restore": "put a backup in the place of what was created",
    "certs": "make a local CA, show how clients trust it",
    "token": "make an API key for OpenAI's clients",
    "kubeconfig": "write the file by which kubectl finds the gateway",
    "dev": "run a model with a gateway and a page to talk to it",
    "conform": "check a container against the contract",
    "replay": "say a recorded stream again, compare the answers",
}
