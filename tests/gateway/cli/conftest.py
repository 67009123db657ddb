"""What tests of partway invoke share."""

from __future__ import annotations

import pytest

from gateway.cli.main import main
from tests.gateway.cli.invoking import Ended


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
