"""What tests of the commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partway.gateway.cli.main import main
from tests.gateway.cli.invoking import Ended
from tests.processes import running


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """An echo container's URL."""
    with running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as url:
        yield url


@pytest.fixture
def asked_wrongly(capfdbinary: pytest.CaptureFixture[bytes]):
    """Runs the command in this process: what it is asked does not get as far as a stream."""

    def run(*arguments: str) -> Ended:
        try:
            status = main(["invoke", *arguments])
        except SystemExit as exit:  # argparse's
            status = exit.code
        output, errors = capfdbinary.readouterr()
        return Ended(status, output, errors.decode())

    return run
