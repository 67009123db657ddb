"""Transform jobs of the API with real containers, and without HTTP before them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from partway.gateway.access.authentication import ANYBODY, Identity
from partway.gateway.apis.control.async_rules import AsyncRules
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.launch_quota import ContainerRoom
from partway.gateway.apis.control.limits import TRANSFORM_QUOTA
from partway.gateway.apis.control.model_data_permission import ModelDataLeave
from partway.gateway.apis.control.planner import Planning
from partway.gateway.apis.control.resources import Resource, Resources
from partway.gateway.apis.transform_jobs.job_runner import TransformKeeper
from partway.gateway.apis.transform_jobs.operations import TransformOperations
from partway.gateway.arns import Arns
from partway.gateway.batch.job_locations import CallersPlaces
from partway.gateway.batch.output_spool import outputs_quota
from partway.gateway.fleet.endpoint import InstanceTimes, Program
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.limits import MAX_LAUNCHED_CONTAINERS
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Router
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.store.store import Store
from partway.gateway.timing.clock import LoopClock
from tests.conftest import ROOT
from tests.gateway.apis.control.deployed import a_model
from tests.gateway.apis.control.kept_endpoints import FullStore

CONTAINER = ROOT / "tests" / "gateway" / "transform_container.py"

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 50.0

ARNS = Arns("us-east-1", "000000000000")

OVER = ("Completed", "Failed", "Stopped")


def a_job(folder: Path, name: str = "mine", **members: Any) -> dict[str, Any]:
    """Members of CreateTransformJob: the lines of the files in ``in``, to ``out``."""
    given = {"ContentType": "text/csv", "SplitType": "Line", **members.pop("given", {})}
    source = {"S3DataType": "S3Prefix", "S3Uri": f"{folder}/in", **members.pop("source", {})}
    put = {"S3OutputPath": f"{folder}/out", "AssembleWith": "Line", **members.pop("put", {})}
    return {
        "TransformJobName": name,
        "ModelName": "capitals",
        "TransformInput": {"DataSource": {"S3DataSource": source}, **given},
        "TransformOutput": put,
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        **members,
    }


class Jobs:
    """What of a gateway runs transform jobs; :meth:`again` is the next one of its data.

    The models ``capitals`` and ``crashing`` are there.

    Args:
        folder: has the folders ``in`` and ``out``, and what the gateway keeps.
        at_once: jobs that run at a time.
        store: of the gateway before.
        may: what principals may do.
        inclusive_slices: whether the ranges of filters have their ends.
        quota: bytes of outputs on their way.
    """

    def __init__(
        self,
        folder: Path,
        at_once: int = 4,
        store: Store | None = None,
        may: Callable[[str, str, str], bool] = lambda *_: True,
        *,
        inclusive_slices: bool = False,
        quota: int = TRANSFORM_QUOTA,
        max_containers: int = MAX_LAUNCHED_CONTAINERS,
    ) -> None:
        self.folder = folder
        self.store = store or FullStore()
        self.now = 1_700_000_000.0
        for each in ("in", "out"):
            (folder / each).mkdir(mode=0o700, exist_ok=True)
        container = (sys.executable, "-S", str(CONTAINER), str(folder))
        settings = Settings(
            images={
                "capitals:1": Program(container),
                "crashing:1": Program((sys.executable, "-S", "-c", "raise SystemExit(3)")),
            },
            local_roots=(folder / "in",),
            local_results=(folder / "out",),
            times=InstanceTimes(stop_timeout=1.0),
            max_transform_jobs=at_once,
            max_containers=max_containers,
        )
        clock = LoopClock()
        self.data = DataDirectory.opened(folder / "data")
        self.provisions = Provisions(clock, self.data, refusal=ModelDataLeave(may, ARNS).refusal)
        self.resources = Resources(self.store, clock)
        self.planning = planning = Planning(settings, clock)
        results = LocalRoots(settings.local_results, setting="local_results")
        places = CallersPlaces(
            *(clock, lambda: planning.local_roots, results),
            outputs_quota(quota),
            self.data.transforms,
        )
        self.keeper = TransformKeeper(
            self.resources, planning, self.provisions.means, places, may,
            self.data.transforms, at_once, inclusive_slices, clock, self._time,
        )  # fmt: skip
        catalogue = Catalogue(self.resources, ARNS, self._time)
        fleet = Fleet(Router(), self.provisions.means)
        room = ContainerRoom(self.resources, fleet, planning, at_once)
        self.api = TransformOperations(
            *(self.resources, catalogue, self.keeper, planning, room, AsyncRules(results)),
            *(ModelDataLeave(may, ARNS), self._time),
        )

    def _time(self) -> float:
        self.now += 1
        return self.now

    async def __aenter__(self) -> Self:
        await self.resources.load()
        if not list(self.resources.all("model")):
            async with self.resources.changing():
                for name in ("capitals", "crashing"):
                    model = a_model(name, f"{name}:1")
                    await self.resources.put(Resource("model", name, 1.0, 1.0, model))
        self.keeper.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.keeper.take_no_jobs()
        self.keeper.hasten()
        await self.keeper.aclose()
        await self.provisions.aclose()
        self.data.close()

    def again(self) -> Jobs:
        """The next gateway of the same data, once this one is over."""
        return Jobs(self.folder, store=self.store)

    async def call(
        self, operation: str, identity: Identity = ANYBODY, **members: Any
    ) -> Mapping[str, Any]:
        return await self.api.operations[operation](members, identity, "request") or {}

    async def create(self, name: str = "mine", **members: Any) -> None:
        await self.call("CreateTransformJob", **a_job(self.folder, name, **members))

    async def describe(self, name: str = "mine") -> Mapping[str, Any]:
        return await self.call("DescribeTransformJob", TransformJobName=name)

    async def status(self, name: str = "mine") -> str:
        return str((await self.describe(name))["TransformJobStatus"])

    async def over(self, name: str = "mine") -> Mapping[str, Any]:
        """How a job is once it has come to its end."""

        async def is_over() -> bool:
            return await self.status(name) in OVER

        await until(is_over, f"the end of {name}")
        return await self.describe(name)

    # --- The container ----------------------------------------------------------------------------

    def give(self, **files: str) -> None:
        """Put files there that are to be transformed, by their names without ``.csv``."""
        for name, text in files.items():
            (self.folder / "in" / f"{name}.csv").write_bytes(text.encode())

    def hold(self) -> None:
        """Have the container answer nothing any more."""
        (self.folder / "hold").touch()

    def let_go(self) -> None:
        (self.folder / "hold").unlink()

    @property
    def asked(self) -> list[str]:
        """The first lines of all requests that containers have had."""
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []

    async def has_asked(self, *lines: str) -> None:
        async def have_come() -> bool:
            return set(lines) <= set(self.asked)

        await until(have_come, f"the requests {lines}")

    @property
    def answers(self) -> dict[str, str]:
        """What has been put out, by the files' names."""
        out = self.folder / "out"
        return {each.name: each.read_bytes().decode() for each in sorted(out.iterdir())}


async def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for what nothing tells of."""
    deadline = time.monotonic() + PATIENCE
    while not await holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)
