"""A container of a hollow pod: a process in the pod's network namespace, with the pod's volumes.

It sees the machine's files, and writes none of them: its root is an overlay in a mount namespace of
its own, and ends with it. A user that the spec names is not taken: it may not read these files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, Self

from tests.conftest import ROOT
from tests.interop.kubernetes import probes
from tests.interop.kubernetes.hosts import inside

#: host's name, "ro" or "rw", scratch folder, pairs of a source and a place, "--", working folder,
#: command
ENTER = r"""
set -e
hostname "$1"
mode=$2 scratch=$3 root=$3/root
shift 3
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
while [ "$1" != -- ]; do
    # Links such as /var/run are followed inside.
    if [ -d "$1" ]; then make='mkdir -p "$0"'; else make='mkdir -p "${0%/*}"; : >>"$0"'; fi
    place=$(chroot "$root" sh -c "$make; realpath \"\$0\"" "$2")
    mount --rbind "$1" "$root$place"
    shift 2
done
shift
mount -o "remount,bind,$mode" "$root"
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$@"
"""

#: Variables of the machine's own that no image sets: without them some builds of OpenBLAS crash.
OF_THE_MACHINE = ("PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

_REFERENCE = re.compile(r"\$\(([\w.-]+)\)")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Image:
    """What an image's name stands for: the command that its container runs."""

    entrypoint: Sequence[str]
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        return cls(**value)


def untagged(image: str) -> str:
    """An image's name without its tag: a node has one version of it."""
    repository, _, tag = image.rpartition(":")
    return repository if repository and "/" not in tag else image


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """The text with the variables that it names as ``$(NAME)``."""
    return _REFERENCE.sub(lambda found: environment.get(found[1], found[0]), text)


def send(process: asyncio.subprocess.Process, number: Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end. An error of the task's own is raised."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


def system_mounts() -> list[str]:
    """Folders that the overlay of the root lacks, each as a source and a place."""
    ours = {str(ROOT), sys.prefix, sys.base_prefix}
    root = Path("/").stat().st_dev
    apart = sorted(each for each in ours if Path(each).stat().st_dev != root)
    return [place for each in ("/proc", "/sys", "/dev", *apart) for place in (each, each)]


class Container:
    """A container, started as often as its pod says.

    Attributes:
        spec: of the pod's spec.
        restarts: how often it was started again.
        started: whether its startup probe has succeeded.
        waiting: why it does not run, before it does.
        ended: its last end, as in ``state.terminated``.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        image: Image | None,
        *,
        hostname: str,
        namespace: str,
        address: str,
        folder: Path,
        log: Path,
        changed: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.image = image
        self.restarts = 0
        self.ready = False
        self.started = False
        self.waiting = "ContainerCreating"
        self.ended: dict[str, Any] | None = None
        self._hostname, self._namespace, self._address = hostname, namespace, address
        self._scratch = folder / f"{self.name}.root"
        self._scratch.mkdir(parents=True)
        self._log = log
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._environment: Mapping[str, str] = {}
        self._running_since = ""

    @property
    def running(self) -> bool:
        return self._process is not None

    async def run(
        self, environment: Mapping[str, str], mounts: Sequence[str], *, grace: float
    ) -> int:
        """Run it once.

        Args:
            environment: of the pod's spec; it overrides the image's.
            mounts: sources and places of its volumes.
            grace: seconds between the two signals that end it where it is not alive.

        Returns:
            Its exit status, 128 and more where a signal has ended it.
        """
        assert self.image is not None
        own = {each: os.environ[each] for each in OF_THE_MACHINE if each in os.environ}
        variables = {**own, **self.image.environment, **environment}
        entry, given = self.spec.get("command"), self.spec.get("args")
        command = [
            *(entry or self.image.entrypoint),
            *(given if given is not None else () if entry else self.image.command),
        ]
        words = [expanded(each, variables) for each in command]
        read_only = self.spec.get("securityContext", {}).get("readOnlyRootFilesystem")
        entering = ["unshare", "--mount", "--uts", "sh", "-c", ENTER, "sh", self._hostname]
        entering += ["ro" if read_only else "rw", str(self._scratch)]
        folder = self.spec.get("workingDir", "/")
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *inside(
                    self._namespace, *entering, *system_mounts(), *mounts, "--", folder, *words
                ),
                env=variables,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._process, self._environment, self._running_since = process, variables, now()
        self._changed()
        probing = asyncio.create_task(self._probe(process, grace))
        try:
            status = await process.wait()
        finally:
            await ended(probing)
            self._process, self.ready, self.started = None, False, False
        status = status if status >= 0 else 128 - status
        self.ended = {
            "exitCode": status,
            "reason": "Error" if status else "Completed",
            "startedAt": self._running_since,
            "finishedAt": now(),
            **self._last_words(status),
        }
        self._changed()
        return status

    def _last_words(self, status: int) -> dict[str, str]:
        """The end of its output, where it failed and its spec asks for that (2 KiB, 80 lines)."""
        if not status or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return {}
        end = self._log.read_bytes()[-2048:].decode("utf-8", "replace")
        return {"message": "\n".join(end.splitlines()[-80:])}

    async def _probe(self, process: asyncio.subprocess.Process, grace: float) -> None:
        def outcomes(kind: str) -> AsyncIterator[bool]:
            return probes.outcomes(self.spec[kind], self.spec, self._address, self.execute)

        if "startupProbe" in self.spec:
            async for alive in outcomes("startupProbe"):
                if not alive:
                    return await self._end(process, grace)
                break
        self.started = True
        async with asyncio.TaskGroup() as group:
            if "livenessProbe" in self.spec:
                group.create_task(self._end_if_dead(outcomes("livenessProbe"), process, grace))
            if "readinessProbe" not in self.spec:
                self._tell(ready=True)
                return None
            async for ready in outcomes("readinessProbe"):
                self._tell(ready=ready)
        return None

    def _tell(self, *, ready: bool) -> None:
        if ready is not self.ready:
            self.ready = ready
            self._changed()

    async def _end_if_dead(
        self, outcomes: AsyncIterator[bool], process: asyncio.subprocess.Process, grace: float
    ) -> None:
        async for alive in outcomes:
            if not alive:
                await self._end(process, grace)

    async def _end(self, process: asyncio.subprocess.Process, grace: float) -> None:
        send(process, SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            send(process, SIGKILL)

    async def execute(self, *words: str) -> int:
        """The exit status of a command inside the container.

        Raises:
            ProcessLookupError: The container does not run.
        """
        if self._process is None:
            raise ProcessLookupError(f"container {self.name} does not run")
        entering = [
            "nsenter",
            f"--target={self._process.pid}",
            "--net",
            "--mount",
            "--uts",
            "--root",
        ]
        with self._log.open("ab") as log:
            command = await asyncio.create_subprocess_exec(
                *entering, "--", *words, env=self._environment, stdout=log, stderr=log
            )
        try:
            return await command.wait()
        except asyncio.CancelledError:
            command.kill()
            raise

    async def stop(self) -> None:
        """Run its hook, and ask it to end."""
        if self._process is None:
            return
        if hook := self.spec.get("lifecycle", {}).get("preStop"):
            with contextlib.suppress(*probes.FAILURES):
                await probes.succeeds(hook, self.spec, self._address, self.execute)
        if self._process is not None:
            send(self._process, SIGTERM)

    def kill(self) -> None:
        if self._process is not None:
            send(self._process, SIGKILL)

    @property
    def status(self) -> dict[str, Any]:
        """As in the pod's status."""
        if self.running:
            state = {"running": {"startedAt": self._running_since}}
        elif self.waiting or self.ended is None:
            state = {"waiting": {"reason": self.waiting}}
        else:
            state = {"terminated": self.ended}
        last = {"terminated": self.ended} if self.ended and "terminated" not in state else {}
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": "",
            "containerID": "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": state,
            "lastState": last,
        }
