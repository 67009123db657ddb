"""partway.gateway.fleet.launchers.engine on a real engine. Run by ``make engine``."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest

from partway.gateway.fleet.endpoints import Image
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_image import LABEL
from tests.gateway.fleet.launchers.contract import (
    TRIED,
    LauncherContract,
    processes_of,
)
from tests.interop.engine import BASE, Engine

pytestmark = pytest.mark.timeout(300)

RECIPE = f"""\
FROM {BASE}
COPY container.py /opt/program/container.py
LABEL {LABEL}=true
ENTRYPOINT ["python", "/opt/program/container.py"]
"""

#: By name, what an image has otherwise than it must.
WRONG = {
    "unlabelled": f'LABEL {LABEL}=""',
    "shell": "ENTRYPOINT python /opt/program/container.py",
    "no-entrypoint": "ENTRYPOINT []",
    "no-program": 'ENTRYPOINT ["/no/such/program"]',
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        engine.make_base()
        folder = tmp_path_factory.mktemp("image")
        shutil.copy(TRIED, folder / "container.py")
        recipe = folder / "Dockerfile"
        recipe.write_text(RECIPE)
        engine.build("tried:1", folder)
        for name, line in WRONG.items():
            recipe.write_text(f"FROM tried:1\n{line}\n")
            engine.build(name, folder)
        yield engine


@pytest.fixture
async def launcher(anyio_backend: object, engine: Engine) -> AsyncIterator[EngineLauncher]:
    launcher = EngineLauncher("tests", find=lambda: engine.where)
    yield launcher
    await launcher.aclose()


class TestEngineLauncher(LauncherContract):
    @pytest.fixture
    def launcher(self, launcher: EngineLauncher) -> EngineLauncher:
        return launcher

    @pytest.fixture
    def source(self) -> Image:
        return Image("tried:1")

    @pytest.fixture
    def unknown(self) -> Image:
        return Image("nobody-has-this", pull="never")

    @pytest.fixture(autouse=True)
    def _engine(self, engine: Engine) -> None:
        self.engine = engine

    async def left_of(self, instance: str) -> list[object]:
        mark = f"label=partway.instance={instance}"
        listed = self.engine.docker("ps", "--all", "--quiet", "--filter", mark)
        return [*processes_of(instance), *listed.split()]
