"""Launching programs of this machine: each instance is a process with a port of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.launchers.callers_folder import check_callers_folder
from partway.gateway.fleet.launchers.empty_model import KeptEmptyModelDir
from partway.gateway.fleet.launchers.gpus import VISIBLE, GpuShares
from partway.gateway.fleet.launchers.kept_programs import (
    AdoptedProgram,
    KeptProgram,
    KeptPrograms,
    made_of,
)
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.launchers.model_folder import identity_of_folder
from partway.gateway.fleet.launchers.process import (
    BIND_TO_HOST,
    HOST,
    Command,
    ContainerProcess,
    free_port,
    launch,
)
from partway.gateway.fleet.launchers.program_lookup import launch_error
from partway.gateway.fleet.platform_interface import PORT_VARIABLE
from partway.gateway.fleet.processes.leash import ENTRY, Leash
from partway.gateway.fleet.processes.process_table import MARK
from partway.gateway.kept_state import NOTHING_KEPT, KeptState
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import HeldData
from partway.gateway.timing.clock import Clock, LoopClock
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Says where the model is (clause 1.1-6).
MODEL_DIR: Final = "SM_MODEL_DIR"

#: Variables that only the gateway sets; API callers may not give them to a program.
OF_THE_GATEWAY: Final = frozenset({BIND_TO_HOST, PORT_VARIABLE, MODEL_DIR, VISIBLE, MARK})


class ProgramLauncher:
    """Starts an instance of a :class:`~partway.gateway.fleet.endpoint.Program` as a process.

    The process has a port of its own (``SAGEMAKER_BIND_TO_PORT``), the model directory in
    ``SM_MODEL_DIR``, and its own GPUs. Its environment is the gateway's with the variant's
    variables; a program for Vertex AI also gets ``AIP_…``. Variables of the gateway override the
    variant's. The process leads a group, which is killed with it and does not outlive the gateway.
    The variant's ``cpus`` and ``memory`` are not enforced, and there is no host name of its own.

    Args:
        gpus: the shares of GPUs; this machine's by default.
        kept: the state that outlives this process. Programs of an earlier one are adopted.
        models: the model data; folders of this machine are used in place by default.
        host: the address of this machine at which programs listen.
    """

    address_timeout = None

    def __init__(
        self,
        gpus: GpuShares | None = None,
        clock: Clock | None = None,
        kept: KeptState = NOTHING_KEPT,
        models: LocalModels | None = None,
        host: str = HOST,
    ) -> None:
        self._gpus = GpuShares() if gpus is None else gpus
        self._clock = LoopClock() if clock is None else clock
        self._models = LocalModels() if models is None else models
        self._host = host
        self._kept = kept
        self._programs = KeptPrograms(kept)
        self._leash: Leash | None = None
        self._earlier_leash = kept.take(ENTRY).get(ENTRY)
        self._no_model = KeptEmptyModelDir(kept)
        earlier = self._programs.earlier
        self._ports = {each.port for each in earlier.values()}
        for container, each in earlier.items():
            self._gpus.reserve(container, each.gpus)
        if earlier:
            self._programs.adopt(self._its_leash(), self._clock)

    @property
    def models(self) -> set[Path]:
        """The model directories of an earlier process's programs that no order has taken."""
        return self._programs.models

    async def launch(self, order: Order) -> ContainerProcess:
        data = await self._models.of(order)
        made = await self._made(order, data)
        if (earlier := self._programs.claim(order.instance, made)) is not None:
            return self._running(order.instance, earlier)
        source = order.variant.source
        assert isinstance(source, Program)
        environment = dict(order.variant.environment)
        port = 0
        try:
            port = free_port(self._ports, self._host)
            self._ports.add(port)
            gpus = await self._gpus_for(order)
            environment |= gpus
            folder = await self._model_dir(data)
            environment[MODEL_DIR] = folder or self._no_model.path()
            if (vertex := order.variant.vertex) is not None:
                environment |= vertex.environment(order.endpoint, order.variant.name, port, folder)
            leash = self._its_leash()
            running = await launch(
                Command(source.command, port, environment, source.cwd, self._host),
                leash,
                paced=True,
                on_end=lambda: self._give_back(order.instance, port),
                clock=self._clock,
            )
        except OSError as error:  # no port, or no leash
            self._give_back(order.instance, port)
            raise launch_error(error, source.command[0]) from error
        except BaseException:
            self._give_back(order.instance, port)
            raise
        own = tuple(gpus.get(VISIBLE, "").split(",")) if order.variant.gpus else ()
        model = "" if data is None else str(data.path)
        mark = running.group.mark
        self._programs.keep(
            *(order.instance, running.group),
            KeptProgram(order.endpoint, made, port, mark, own, model, 0),
        )
        return running

    @property
    def has_unclaimed(self) -> bool:
        """Whether there are programs of an earlier process that no order has taken."""
        return self._programs.has_unclaimed

    async def unclaimed(
        self, is_awaited: Callable[[str], bool]
    ) -> Mapping[str, tuple[str, ContainerProcess]]:
        """Adopt an earlier process's programs that no order has taken, for the caller to end.

        Programs that the earlier process has not kept, since it was starting them, are killed.

        Args:
            is_awaited: whether an order for a container may still come.

        Returns:
            The name of the endpoint, and the program, by container id.
        """
        found = self._programs.unclaimed(is_awaited)
        if self._earlier_leash is not None:
            marks = {each.mark for each in self._programs.earlier.values()}
            await self._its_leash().kill_lost(marks)
        return {
            container: (each.record.endpoint, self._running(container, each))
            for container, each in found.items()
        }

    def release(self, version: str) -> None:
        self._models.release(version)

    async def aclose(self) -> None:
        """Close the leash, and remove the empty model directory."""
        if self._leash is not None:
            self._leash.close()
            self._leash = None
        for each in self._programs.unclaimed(lambda _: False).values():  # the leash has ended them
            each.process.release()
        self._no_model.remove()

    def _running(self, container: str, adopted: AdoptedProgram) -> ContainerProcess:
        program = adopted.record
        about = {"endpoint": program.endpoint, "container": container}
        log.info(LogLine("running program adopted", **about, pid=adopted.process.pid))
        return ContainerProcess(
            adopted.process,
            Address(self._host, program.port),
            self._clock,
            self._its_leash().strays,
            on_end=lambda: self._give_back(container, program.port),
            output=adopted.output,
        )

    def _give_back(self, container: str, port: int) -> None:
        self._ports.discard(port)
        self._gpus.give_back(container)
        self._programs.forget(container)

    def _its_leash(self) -> Leash:
        if self._leash is None:
            self._leash = Leash(self._kept, self._earlier_leash)
        return self._leash

    async def _made(self, order: Order, data: HeldData | None) -> str:
        """Return a digest of what an ordered program is made of; empty if it cannot be known."""
        try:
            return made_of(order, await identity_of_folder(data, self._clock))
        except OSError:  # a TimeoutError is one; the launch says what is wrong
            return ""

    async def _gpus_for(self, order: Order) -> Mapping[str, str]:
        """Return the variable with an instance's GPUs; nothing if it may see all."""
        number = order.variant.gpus
        if not number:
            if not self._gpus.given:
                return {}
            own = dict(order.variant.environment)
            return {VISIBLE: own.get(VISIBLE, "")}  # it must not use the others' GPUs
        await self._gpus.find()
        return {VISIBLE: ",".join(self._gpus.take(order.instance, number))}

    async def _model_dir(self, data: HeldData | None) -> str:
        """Return the path of the model's folder; empty for none.

        A caller's folder is named by its open descriptor: its own path may lead elsewhere by the
        time the program opens it.
        """
        if data is None:
            return ""
        if data.opened is not None:
            if (path := data.opened.program_path) is not None:
                return str(path)
            await check_callers_folder(data.opened, self._clock)
        return str(data.path)
