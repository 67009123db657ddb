"""Launching programs of this machine: each instance is a process with a port of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Final

from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.gpus import VISIBLE, GpuShares
from partway.gateway.fleet.launchers.callers_folder import check_callers_folder
from partway.gateway.fleet.launchers.empty_model import empty_model_dir
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.launchers.process import (
    BIND_TO_HOST,
    Command,
    ContainerProcess,
    free_port,
    launch,
)
from partway.gateway.fleet.launchers.program_lookup import launch_error
from partway.gateway.fleet.platform_interface import PORT_VARIABLE
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_table import MARK
from partway.gateway.timing.clock import Clock, LoopClock

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
    """

    def __init__(self, gpus: GpuShares | None = None, clock: Clock | None = None) -> None:
        self._gpus = GpuShares() if gpus is None else gpus
        self._clock = clock
        self._leash: Leash | None = None
        self._no_model: tempfile.TemporaryDirectory[str] | None = None
        self._ports: set[int] = set()

    async def launch(self, order: Order) -> ContainerProcess:
        source = order.variant.source
        assert isinstance(source, Program)
        environment = dict(order.variant.environment)
        port = 0

        def give_back() -> None:
            self._ports.discard(port)
            self._gpus.give_back(order.instance)

        try:
            port = free_port(self._ports)
            self._ports.add(port)
            environment |= await self._gpus_for(order)
            folder = await self._model_dir(order)
            environment[MODEL_DIR] = folder or self._empty_dir()
            if (vertex := order.variant.vertex) is not None:
                environment |= vertex.environment(order.endpoint, order.variant.name, port, folder)
            if self._leash is None:
                self._leash = Leash()
            return await launch(
                Command(source.command, port, environment, source.cwd),
                self._leash,
                order.output,
                paced=True,
                on_end=give_back,
                clock=self._clock,
            )
        except OSError as error:  # no port, or no leash
            give_back()
            raise launch_error(error, source.command[0]) from error
        except BaseException:
            give_back()
            raise

    async def aclose(self) -> None:
        """Close the leash, and remove the empty model directory."""
        if self._leash is not None:
            self._leash.close()
            self._leash = None
        if self._no_model is not None:
            self._no_model.cleanup()
            self._no_model = None

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

    async def _model_dir(self, order: Order) -> str:
        """Return the path of the model's folder; empty for none.

        A caller's folder is named by its open descriptor: its own path may lead elsewhere by the
        time the program opens it.
        """
        if order.model_dir is None:
            return ""
        if order.opened is not None:
            if (path := order.opened.program_path) is not None:
                return str(path)
            await check_callers_folder(order.opened, self._clock or LoopClock())
        return str(order.model_dir)

    def _empty_dir(self) -> str:
        if self._no_model is None:
            self._no_model = empty_model_dir()
        return self._no_model.name
