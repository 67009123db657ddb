"""Shares of this machine's GPUs for the programs that run on it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from partway.gateway.fleet.container_ids import instance_of
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.limits import GPU_LIST_TIMEOUT

#: CUDA reads from this variable which GPUs it may see; UUIDs are allowed too.
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"

#: The NVIDIA driver has one folder for each GPU here.
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")

_UUID: Final = re.compile(r"\b(?:GPU|MIG)-[0-9A-Za-z/-]+")


class GpuShares:
    """The assignment of GPUs to instances.

    All containers of an instance share the same GPUs, until the last of them gives them back.
    Containers are named by :mod:`.container_ids`.

    Args:
        gpus: names that CUDA knows: UUIDs, or those of the gateway's own ``CUDA_VISIBLE_DEVICES``;
            None for this machine's GPUs, which :meth:`find` finds.
    """

    def __init__(self, gpus: Sequence[str] | None = None) -> None:
        self._known = gpus is not None
        self._gpus = tuple(gpus or ())
        self._owners: dict[str, str] = {}
        self._holders: dict[str, set[str]] = {}  # containers of each instance
        self._moved: dict[str, str] = {}  # old to new instance
        self._finding = asyncio.Lock()

    async def find(self) -> None:
        """Find this machine's GPUs, once; must be done before the first :meth:`take`."""
        async with self._finding:
            if not self._known:
                self._gpus = await gpus_of_this_machine()
                self._known = True

    @property
    def sees_none(self) -> bool:
        """Whether the gateway sees no GPUs although ``CUDA_VISIBLE_DEVICES`` does not hide them."""
        return not self._gpus and VISIBLE not in os.environ

    @property
    def given(self) -> bool:
        return bool(self._owners)

    def take(self, container: str, number: int) -> tuple[str, ...]:
        """Give an instance GPUs of its own, until :meth:`give_back`.

        ``container`` is the id of one of the instance's containers.

        Raises:
            LaunchError: the machine has too few GPUs, or other instances have them.
        """
        instance = self._instance(container)
        if held := tuple(gpu for gpu in self._gpus if self._owners.get(gpu) == instance):
            self._holders[instance].add(container)
            return held
        if number > len(self._gpus):
            seen = f"only {len(self._gpus)}" if self._gpus else "none"
            raise LaunchError(
                f"the variant asks for {number} GPUs, but this gateway sees {seen}; gpus must be "
                f"at most {len(self._gpus)} (as {VISIBLE} of the gateway, nvidia-smi -L or "
                f"{_DRIVER} says)",
                passing=False,
            )
        free = [gpu for gpu in self._gpus if gpu not in self._owners]
        if number > len(free):
            owners = ", ".join(sorted(set(self._owners.values())))
            raise LaunchError(
                f"the variant asks for {number} GPUs, but only {len(free)} of {len(self._gpus)} "
                f"are free; {owners} have the others",
                passing=True,
                waits=True,
            )
        taken = tuple(free[:number])
        self._own(container, taken)
        return taken

    def keep(self, container: str, gpus: Sequence[str]) -> bool:
        """Note a container's own GPUs; return False if they are unknown or another instance's."""
        instance = self._instance(container)
        if any(gpu not in self._gpus for gpu in gpus):
            return False
        if any(self._owners.get(gpu, instance) != instance for gpu in gpus):
            return False
        self._own(container, gpus)
        return True

    def reserve(self, container: str, gpus: Sequence[str]) -> None:
        """Note the GPUs that a running container has, whether or not they are known yet."""
        self._own(container, gpus)

    def move(self, old: str, new: str) -> None:
        """Hand one instance's GPUs and containers over to another instance.

        An instance that already has GPUs keeps those and takes no others.
        """
        if old in self._holders and new not in self._holders:
            self._moved[old] = new
            self._holders[new] = self._holders.pop(old)
            self._owners = {
                gpu: new if owner == old else owner for gpu, owner in self._owners.items()
            }

    def give_back(self, container: str) -> None:
        """Take back a container's GPUs, unless another container of its instance still has them."""
        instance = self._instance(container)
        holders = self._holders.get(instance, set())
        holders.discard(container)
        if not holders:
            self._holders.pop(instance, None)
            self._moved = {old: new for old, new in self._moved.items() if new != instance}
            self._owners = {gpu: owner for gpu, owner in self._owners.items() if owner != instance}

    def _instance(self, container: str) -> str:
        instance = instance_of(container)
        return self._moved.get(instance, instance)

    def _own(self, container: str, gpus: Sequence[str]) -> None:
        if gpus:
            instance = self._instance(container)
            self._owners |= dict.fromkeys(gpus, instance)
            self._holders.setdefault(instance, set()).add(container)


async def gpus_of_this_machine(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Find the GPUs that this process may give to others.

    They are those of ``CUDA_VISIBLE_DEVICES`` if that is set. Otherwise ``nvidia-smi`` lists them,
    or the driver where there is no such tool.
    """
    if (visible := environment.get(VISIBLE)) is not None:
        return _visible(visible)
    listed = await _listed()
    if listed is None:
        listed = "\n".join(_of_driver())
    return _uuids(listed)


def _visible(value: str) -> tuple[str, ...]:
    """Read a value of the variable; CUDA stops at the first invalid name, such as -1."""
    found: list[str] = []
    for each in (part.strip() for part in value.split(",")):
        if not each or each.startswith("-") or each == "NoDevFiles":
            break
        found.append(each)
    return tuple(found)


def _uuids(listed: str) -> tuple[str, ...]:
    """Return the UUIDs in a list of ``nvidia-smi -L``; for a divided GPU (MIG), those of its parts.

    UUIDs are used because numbers differ: CUDA counts the fastest first, and the tool by the bus.
    """
    found: list[str] = []
    whole = ""
    for uuid in _UUID.findall(listed):
        if uuid.startswith("MIG-") and found and found[-1] == whole:
            found.pop()
        whole = uuid if uuid.startswith("GPU-") else whole
        found.append(uuid)
    return tuple(found)


async def _listed() -> str | None:
    """Return the output of ``nvidia-smi -L``; None if the program is missing or does not answer."""
    try:
        process = await asyncio.create_subprocess_exec(
            "nvidia-smi",
            "-L",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(GPU_LIST_TIMEOUT):
            said, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.decode(errors="replace") if process.returncode == 0 else None


def _of_driver() -> list[str]:
    """Return the driver's description of each GPU, in bus order."""
    found = []
    with suppress(OSError):
        for folder in sorted(_DRIVER.iterdir()):
            found.append((folder / "information").read_text())  # noqa: PERF401
    return found
