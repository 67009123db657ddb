"""Instances that are programs of this machine, each a process with a port of its own."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partway.gateway.clock import Clock
from partway.gateway.files import is_file_or_folder, is_folder
from partway.gateway.fleet.endpoints import Program
from partway.gateway.fleet.gpus import VISIBLE, GpuShares
from partway.gateway.fleet.launchers.empty_model import empty_model_dir
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.launchers.process import (
    HOST,
    PORT_VARIABLE,
    Command,
    ContainerProcess,
    free_port,
    launch,
)
from partway.gateway.fleet.leash import Leash
from partway.gateway.fleet.process_table import MARK

#: Says to our own runtime where to listen, which has every interface otherwise, as in an image.
_BIND_TO_HOST: Final = "PARTWAY_BIND_TO_HOST"

#: Says where the model is (clause 1.1-6).
_MODEL_DIR: Final = "SM_MODEL_DIR"

#: What the gateway itself tells a program: of callers of the API no program takes it.
OF_THE_GATEWAY: Final = frozenset({_BIND_TO_HOST, PORT_VARIABLE, _MODEL_DIR, VISIBLE, MARK})

#: There is no file descriptor left, which says nothing of what is to be started.
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})

#: What the system has too little of for now: processes, descriptors, memory.
_PASSING: Final = _NO_DESCRIPTOR | {errno.EAGAIN, errno.ENOMEM}


class ProgramLauncher:
    """Starts an instance of a :class:`~partway.gateway.fleet.endpoints.Program` as a process.

    The process has a port of its own (``SAGEMAKER_BIND_TO_PORT``), the variant's environment beside
    the gateway's, the model directory in ``SM_MODEL_DIR``, and as many GPUs of its own as it asks
    for. One that is written for Vertex AI is told by ``AIP_…`` too. What the gateway says goes
    before what the variant does. It leads a group, which is killed with it, and does not outlive
    the gateway. Nothing enforces the variant's ``cpus`` and ``memory``, and it has no host name of
    its own.

    Args:
        gpus: who has which GPUs; this machine's by default.
        clock: measures all times; the running loop's by default.
    """

    def __init__(self, gpus: GpuShares | None = None, clock: Clock | None = None) -> None:
        self._gpus = GpuShares() if gpus is None else gpus
        self._clock = clock
        self._leash: Leash | None = None
        self._no_model: tempfile.TemporaryDirectory[str] | None = None
        self._ports: set[int] = set()

    async def launch(self, order: Order) -> ContainerProcess:
        """Start an instance's process; see :class:`~.launcher.Launcher`."""
        source = order.variant.source
        assert isinstance(source, Program)
        # Whatever the variant says: a process of this machine is for this machine alone.
        environment = {**dict(order.variant.environment), _BIND_TO_HOST: HOST}
        program = find_program(source, environment)
        port = 0

        def give_back() -> None:
            self._ports.discard(port)
            self._gpus.give_back(order.instance)

        try:
            port = free_port(self._ports)
            self._ports.add(port)
            environment |= await self._gpus_for(order)
            environment[_MODEL_DIR] = self._model_dir(order)
            if (vertex := order.variant.vertex) is not None:
                storage = "" if order.model_dir is None else str(order.model_dir)
                environment |= vertex.environment(order.endpoint, order.variant.name, port, storage)
            if self._leash is None:
                self._leash = Leash()
            return await launch(
                Command((program, *source.command[1:]), port, environment, source.cwd),
                self._leash,
                order.output,
                paced=True,
                on_end=give_back,
                clock=self._clock,
            )
        except OSError as error:
            give_back()
            raise _launch_error(error, source) from error
        except BaseException:
            give_back()
            raise

    async def aclose(self) -> None:
        """Let go of the leash, and remove the empty model directory."""
        if self._leash is not None:
            self._leash.close()
            self._leash = None
        if self._no_model is not None:
            self._no_model.cleanup()
            self._no_model = None

    async def _gpus_for(self, order: Order) -> Mapping[str, str]:
        """The variable that says which GPUs an instance has; nothing where it may see all."""
        number = order.variant.gpus
        if not number:
            if not self._gpus.given:
                return {}
            own = dict(order.variant.environment)
            return {VISIBLE: own.get(VISIBLE, "")}  # the others' are not its
        await self._gpus.find()
        return {VISIBLE: ",".join(self._gpus.take(order.instance, number))}

    def _model_dir(self, order: Order) -> str:
        if order.model_dir is not None:
            return str(order.model_dir)
        if self._no_model is None:
            self._no_model = empty_model_dir()
        return self._no_model.name


def find_program(source: Program, environment: Mapping[str, str]) -> str:
    """Find a program as the system would, and then beside the Python that runs the gateway.

    An environment that is not activated has ``partway-container`` where nobody looks for it.

    Raises:
        LaunchError: there is no such program, it cannot be executed, there is no such folder, or
            the system cannot be told.
    """
    name, cwd = source.command[0], source.cwd
    if "\0" in "".join((*source.command, *environment, *environment.values())):
        raise LaunchError(
            f"{name!r} cannot be started: its command and environment must be without NUL "
            "characters",
            passing=False,
        )
    if cwd is not None and not is_folder(cwd):
        raise LaunchError(
            f"{cwd}: the folder in which {name!r} is to run must be there", passing=False
        )
    if "/" in name:
        path = Path(cwd or "", name)
        if not is_file_or_folder(path):
            raise LaunchError(f"{path}: there is no such program", passing=False)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise LaunchError(f"{path}: it must be an executable file: chmod +x", passing=False)
        return name
    path_list = environment.get("PATH", os.environ.get("PATH", os.defpath))
    if shutil.which(name, path=path_list) is not None:
        return name
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=str(beside))
    if found is None:
        raise LaunchError(
            f"there is no program {name!r}: it was looked for in PATH ({path_list}) and in "
            f"{beside}; give its path, or change PATH",
            passing=False,
        )
    return found


def _launch_error(error: OSError, source: Program) -> LaunchError:
    """What it means that the system does not start a program that is there."""
    name = source.command[0]
    if error.errno in _PASSING:
        why = f"{name!r} cannot be started now: {os.strerror(error.errno or 0)}"
        return LaunchError(why, passing=True, waits=error.errno in _NO_DESCRIPTOR)
    if error.errno == errno.ENOEXEC:
        return LaunchError(
            f"{name!r} cannot be started: it must be a program of this machine, or a script that "
            "begins with #!",
            passing=False,
        )
    if error.errno == errno.ENOENT:  # the program is there
        return LaunchError(
            f"{name!r} cannot be started: what its first line names after #! must be there",
            passing=False,
        )
    return LaunchError(
        f"{name!r} cannot be started: {os.strerror(error.errno or 0)}", passing=False
    )
