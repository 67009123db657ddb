"""A container engine of its own: Docker's daemon, with all it keeps in one folder.

::

    with Engine(directory) as engine:
        engine.make_base()
        engine.build("partway", ROOT)
        engine.docker("run", "--detach", "--name", "model", "partway", "serve")

No registry is asked for: what recipes name as ``python:3.11-slim`` is made here and imported.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.interop.images import CERTIFICATES, PATIENCE, base_files, pip_like_here

#: What the recipes are built on, unless they are told another base.
BASE = "python:3.11-slim"

#: For the daemon to begin and to end, in seconds; it ends what still runs first.
_DAEMON_PATIENCE = 60

# What differs from the image that this one stands for: the name of the program, and the
# distribution's word that nobody but itself manages Python.
_BASE = """\
FROM bare
RUN ln -s python3 /usr/bin/python
ENV PIP_BREAK_SYSTEM_PACKAGES=1
COPY pip.conf /etc/pip.conf
"""


class Engine:
    """An engine, which ends with the context, and with it all that it has made. It needs root.

    Args:
        directory: an empty folder for all that the engine keeps. It takes two gigabytes where the
            kernel has overlays there. Where it has none each layer is a copy of the whole: that
            takes a dozen, and ten minutes in place of two.
        options: further ones of the daemon's.

    Attributes:
        where: it is, as ``DOCKER_HOST`` says it.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self.where = f"unix://{directory}/docker.sock"
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        (self._directory / "none.json").write_text("{}")  # whatever this machine's own is told
        self.start()
        return self

    def start(self) -> None:
        """Have the daemon run, again perhaps; returns when it answers."""
        program = shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "dockerd must be installed: apt-get install docker.io iptables"
        own = self._directory
        options = [f"--data-root={own}/data", f"--exec-root={own}/exec", f"--pidfile={own}/pid"]
        options += [f"--config-file={own}/none.json", f"--host={self.where}", *self._options]
        with (own / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [program, *options], stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + _DAEMON_PATIENCE
        try:
            while self._run(["docker", "version"], check=False).returncode:
                assert self._daemon.poll() is None, f"dockerd has ended:\n{self._log()}"
                assert time.monotonic() < until, f"dockerd does not answer:\n{self._log()}"
                time.sleep(0.1)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        assert self._daemon is not None, "the context was entered"
        if self._daemon.poll() is None:
            left = self._run(["docker", "ps", "--all", "--quiet"], check=False).stdout.split()
            if left:
                self._run(["docker", "rm", "--force", *left], check=False)
            self.stop()
        self._unmount()
        # Should a mount be left in there, it is not this machine's files that are removed.
        remove = ["rm", "-r", "--one-file-system", self._directory]
        subprocess.run(remove, check=True, timeout=PATIENCE)

    def stop(self) -> None:
        """End the daemon; its containers end too, unless it was told otherwise."""
        daemon = self._daemon
        assert daemon is not None, "it was started"
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(_DAEMON_PATIENCE)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _unmount(self) -> None:
        """Undo what the daemon leaves mounted, such as the namespace of this machine's network."""
        mounts = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
        places = [Path(line.split()[4]) for line in mounts]
        for place in reversed([place for place in places if self._directory in place.parents]):
            subprocess.run(["umount", place], check=True, timeout=PATIENCE)

    def make_base(self) -> None:
        """Make ``BASE``, whose pip gets packages from where this machine's does."""
        path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.docker("import", "--change", path, str(base_files()), "bare")
        context = self._directory / "base"
        context.mkdir()
        text, certificates = pip_like_here()
        (context / "pip.conf").write_text(text)
        recipe = _BASE
        if certificates is not None:
            shutil.copy(certificates, context / "certificates.pem")
            recipe += f"COPY certificates.pem {CERTIFICATES}\n"
        (context / "Dockerfile").write_text(recipe)
        self.build(BASE, context)

    def build(self, name: str, folder: Path, *options: str) -> None:
        """Build a folder's recipe.

        Raises:
            AssertionError: it cannot be built; what the builder said.
        """
        self.docker("build", "--network", "host", "--tag", name, *options, str(folder))

    def docker(self, *words: str, cwd: Path | None = None) -> str:
        """Run a command of the engine's; returns what it prints.

        Raises:
            AssertionError: the command failed; what it said.
        """
        return self._run(["docker", *words], cwd=cwd).stdout.strip()

    def log(self, container: str) -> list[str]:
        """What a container has written to its standard error, in lines."""
        return self._run(["docker", "logs", container]).stderr.splitlines()

    def compose(self, *words: str, **variables: str) -> str:
        """Run Compose, as Docker's plugin where there is one; returns what it prints.

        Raises:
            AssertionError: the command failed; what it said.
        """
        plugin = self._run(["docker", "compose", "version"], check=False).returncode == 0
        program = ["docker", "compose"] if plugin else ["docker-compose", "--no-ansi"]
        return self._run([*program, *words], **variables).stdout.strip()

    def _run(
        self, command: list[str], *, check: bool = True, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            cwd=cwd,
            # The builder that comes with every engine: the other one is a download of its own.
            env=os.environ | {"DOCKER_HOST": self.where, "DOCKER_BUILDKIT": "0"} | variables,
        )
        said = f"{' '.join(command[:3])}: status {done.returncode}\n{done.stdout}{done.stderr}"
        assert not check or done.returncode == 0, said
        return done

    def _log(self) -> str:
        return (self._directory / "log").read_text("utf-8", "replace")[-4000:]
