"""partway.gateway.fleet.processes.unexpanded: variables in commands, which nothing expands."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.processes.unexpanded import unexpanded_variables

PORT = "write {port}, which stands for the port"
SHELL = "write its value, or have a shell expand it: sh -c 'exec …'"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("uvicorn", "--port", "$SAGEMAKER_BIND_TO_PORT"), {"$SAGEMAKER_BIND_TO_PORT": PORT}),
        (("a", "--bind=0.0.0.0:${PORT:-8080}"), {"${PORT:-8080}": PORT}),
        (("a", "$AIP_HTTP_PORT", "$AIP_HTTP_PORT"), {"$AIP_HTTP_PORT": PORT}),
        (("a", "$HOME/models"), {"$HOME": SHELL}),
        (("sh", "-c", "exec a $PORT"), {}),
        (("env", "A=$HOME", "/bin/bash", "-euo", "pipefail", "-c", "a $PORT"), {"$HOME": SHELL}),
        (("bash", "start.sh", "$PORT"), {"$PORT": PORT}),
        (("sh", "-c", 'exec "$@" $A', "sh", "$PORT"), {"$PORT": PORT}),
        (("sh", "-c", "-e", "a $PORT"), {}),
        (("sh", "-c"), {}),
        (("a", "5$", "^a$|b", "$1", "$$", "${}", "{port}"), {}),
    ],
)
def test_a_variable_that_no_shell_expands_is_named_once(words, named):
    assert list(unexpanded_variables(words)) == [
        f"no shell expands {written}, so the program gets it as written: {instead}"
        for written, instead in named.items()
    ]
