"""Images without a container engine: built by buildah, started by the kernel's own means.

::

    with Images(directory) as images:
        images.make_base()
        images.build("localhost/model", folder, BASE=BASE)
        with images.started("localhost/model", "serve", artifacts=model, environment={}) as running:
            ...  # running.url answers
            assert running.stop() == 0
"""

from __future__ import annotations

import ast
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from tests.dockerfiles import ARTIFACTS
from tests.processes import ready_url

#: The name of the image that stands for python:3-slim.
BASE = "localhost/partway-base"

#: Seconds for a build, with all that pip fetches for it.
PATIENCE = 1200

#: The platform kills what has not ended this long after SIGTERM (clause 1.1-1), in seconds.
KILL_AFTER = 30

#: Of pip's settings, those that say where packages come from and how they are reached.
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")

#: Where a build sees this machine's certificates.
CERTIFICATES = "/etc/ssl/certs/of-the-builder.pem"

# In namespaces of its own the program is process 1, and the mounts end with it. The devices are
# this machine's.
_START = f"""
root=$1 artifacts=$2 directory=$3
shift 3
mkdir -p "$root{ARTIFACTS}"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$artifacts" "$root{ARTIFACTS}"
mount -o remount,bind,ro "$root{ARTIFACTS}"
exec chroot "$root" env --ignore-environment --chdir="$directory" "$@"
"""


def base_files() -> Path:
    """The base's files as a tar, made once for each version of the script that makes them.

    It lies in the environment that runs the tests, so the checkout stays as it is and
    ``make clean`` takes it along.
    """
    script = Path(__file__).with_name("image_base")
    version = hashlib.sha256(script.read_bytes()).hexdigest()[:16]
    where = Path(sys.prefix) / "interop-image" / version
    if not where.exists():
        where.parent.mkdir(exist_ok=True)
        making = where.with_suffix(".tar")
        subprocess.run([script, making], check=True, timeout=PATIENCE)
        making.rename(where)
    return where


def pip_like_here() -> tuple[str, str | None]:
    """A pip.conf for builds, by which pip gets packages from where this machine's does.

    Returns:
        The file's text, and the file of this machine's certificates that a build has to have at
        ``CERTIFICATES``; None if pip here is told of none.
    """
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout
    settings, certificates = {}, None
    # What the environment says counts for more than what files do.
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, quoted = line.partition("=")
        key = name.rpartition(".")[2].removeprefix("default-")
        if key in _PIP_SETTINGS:
            settings[key] = ast.literal_eval(quoted)
        elif key == "cert":
            settings[key] = CERTIFICATES
            certificates = ast.literal_eval(quoted)
    text = "[global]\n" + "".join(f"{key} = {settings[key]}\n" for key in settings)
    return text, certificates


def _like_pip_here(directory: Path) -> list[str]:
    """Options of a build whose pip gets packages from where this machine's does."""
    text, certificates = pip_like_here()
    file = directory / "pip.conf"
    file.write_text(text)
    options = ["--volume", f"{file}:/etc/pip.conf:ro"]
    if certificates is not None:
        options += ["--volume", f"{certificates}:{CERTIFICATES}:ro"]
    return options


class Running(NamedTuple):
    """A program of an image, ready.

    Attributes:
        url: where it listens, as it says.
        process: its parent, which ends as it does.
    """

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> int:
        """As the platform does it: SIGTERM to process 1, and some time. Returns its status.

        Raises:
            subprocess.TimeoutExpired: the platform would kill it now.
        """
        (first,) = psutil.Process(self.process.pid).children()
        first.send_signal(signal.SIGTERM)
        return self.process.wait(KILL_AFTER)


class Images:
    """A builder with a storage of its own, which is gone when the context ends. It needs root.

    Args:
        directory: an empty folder for the storage. It takes a few hundred megabytes where the
            kernel has overlays there, and as much for each image where it has none.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._like_pip_here = _like_pip_here(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buildah("rm", "--all")
        # Should a mount be left in there, it is not this machine's files that are removed.
        remove = ["rm", "-r", "--one-file-system", self._directory]
        subprocess.run(remove, check=True, timeout=PATIENCE)

    def make_base(self) -> None:
        container = self._buildah("from", "scratch")
        self._buildah("add", "--quiet", container, str(base_files()), "/")
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self._buildah("config", "--env", path, "--cmd", "python3", container)
        self._buildah("commit", "--quiet", "--rm", container, BASE)

    def build(self, name: str, folder: Path, **arguments: str) -> None:
        """Build a folder's recipe, with build arguments.

        Raises:
            AssertionError: it cannot be built; what the builder said.
        """
        options = ["--isolation", "chroot", "--tag", name, *self._like_pip_here]
        for key, value in arguments.items():
            options += ["--build-arg", f"{key}={value}"]
        self._buildah("bud", *options, str(folder))

    def configuration(self, name: str) -> dict[str, Any]:
        """What an image says of itself: ``Labels``, ``Entrypoint``, ``Env`` and so on."""
        told = json.loads(self._buildah("inspect", "--type", "image", name))
        configuration: dict[str, Any] = told["OCIv1"]["config"]
        return configuration

    @contextmanager
    def started(
        self, name: str, *arguments: str, artifacts: Path, environment: Mapping[str, str]
    ) -> Iterator[Running]:
        """Start an image's entry point with arguments, as ``docker run IMAGE ARGUMENTS`` does.

        Args:
            artifacts: the folder that is under /opt/ml/model, for reading only.
            environment: what is set besides what the image sets.
        """
        configuration = self.configuration(name)
        container = self._buildah("from", name)
        root = self._buildah("mount", container)
        command = [
            *("unshare", "--mount", "--pid", "--kill-child", "sh", "-euc", _START, "sh"),
            *(root, str(artifacts), configuration.get("WorkingDir", "/")),
            *configuration["Env"],
            *(f"{key}={value}" for key, value in environment.items()),
            *configuration["Entrypoint"],
            *arguments,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                yield Running(ready_url(process), process)
            finally:
                process.kill()

    def _buildah(self, *command: str) -> str:
        storage = ["--root", str(self._directory / "root")]
        storage += ["--runroot", str(self._directory / "runroot")]
        done = subprocess.run(
            ["buildah", *storage, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"buildah {command[0]}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()
