"""The installed package, in projects that have folders and modules named like ours."""

from __future__ import annotations

import email
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.processes import ready_url

pytestmark = pytest.mark.timeout(300)

FOLDERS = ("protocol", "gateway", "container")

#: Names that a project may have for its own.
NAMES = (*FOLDERS, "workbench", "completion", "testing")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that nothing is left in the tree; it has been run: there is bytecode in it."""
    copied = tmp_path_factory.mktemp("sources") / "partway"
    copied.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "src", *FOLDERS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, copied / name)
    for folder in ("src/partway", "gateway/cli", "protocol"):
        cache = copied / folder / "__pycache__"
        cache.mkdir(exist_ok=True)
        (cache / "stale.cpython-311.pyc").write_bytes(b"")
    return copied


@pytest.fixture(scope="module")
def archive(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    target = tmp_path_factory.mktemp("sdist")
    code = "import sys, hatchling.build; hatchling.build.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, target], check=True, timeout=120, cwd=sources)
    (built,) = target.glob("partway-*.tar.gz")
    return built


def wheel_of(sources: Path, target: Path) -> Path:
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", target]
    build += ["--no-build-isolation", "--no-index"]
    subprocess.run([*build, sources], check=True, timeout=120)
    (built,) = target.glob("partway-*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the archive, as whoever installs from it builds it."""
    return wheel_of(archive, tmp_path_factory.mktemp("wheel"))


def environment(wheel: Path | None, home: Path, *, editable: Path | None = None) -> Path:
    """The folder of the commands of a fresh environment that has Partway."""
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    what = ["--no-build-isolation", "--editable", editable] if editable else [wheel]
    # Dependencies come from here. A .pth file inside that folder is not followed, so an editable
    # installation of these very sources is not seen.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*install, "--no-index", *what], check=True, timeout=120)  # type: ignore[list-item]
    script = home / "bin" / "pytest"
    script.write_text(
        f"#!{python}\nimport pytest, sys\nif __name__ == '__main__':\n    sys.exit(pytest.main())\n"
    )
    script.chmod(0o755)
    return home / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of a fresh environment with the wheel in it."""
    return environment(wheel, tmp_path_factory.mktemp("environment"))


@contextmanager
def running(program: Path, *arguments: str, **options: object) -> Iterator[str]:
    process = subprocess.Popen(
        [program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield ready_url(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors.decode()


def clean_environment() -> dict[str, str]:
    """Without what would bring these sources back, or another gateway's settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PARTWAY_", "PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV"))
    }


# --- What is built -------------------------------------------------------------------------------


def in_the_tree() -> set[str]:
    """The files of the three folders and of what joins them, by their places in the package."""
    package = ROOT / "src" / "partway"
    places = [(path, "") for path in package.iterdir() if path.is_file()]
    for folder in FOLDERS:
        places += [(path, folder) for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {
        f"partway/{(path.relative_to(ROOT) if folder else path.relative_to(package)).as_posix()}"
        for path, folder in places
        if "__pycache__" not in path.parts
    }


def test_the_wheel_holds_one_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if "dist-info" not in name}
    assert inside == in_the_tree()
    assert len(inside) > 200
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_archive_holds_each_file_once(archive):
    with tarfile.open(archive) as opened:
        names = [member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()]
        assert not [member.name for member in opened.getmembers() if member.issym()]
    assert len(names) == len(set(names))
    assert {f"src/{name}" for name in in_the_tree()} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_is_the_same_from_the_tree_and_from_the_archive(wheel, sources, tmp_path):
    other = wheel_of(sources, tmp_path)
    assert zipfile.ZipFile(other).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_metadata_has_the_version_and_links(wheel):
    opened = zipfile.ZipFile(wheel)
    (name,) = [name for name in opened.namelist() if name.endswith("dist-info/METADATA")]
    metadata = email.message_from_bytes(opened.read(name))
    import partway

    assert metadata["Version"] == partway.__version__
    links = dict(link.split(", ") for link in metadata.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(links)


# --- Projects with names like ours ---------------------------------------------------------------

WRONG = "raise SystemExit('the wrong code')\n"

MODEL = """\
from partway import Model, Processes, Stream


class Chat(Model):
    runs_on = Processes(1)

    def shout(self, text: str) -> str:
        return text.upper()

    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            await stream.send(await self.workers.run(self.shout, message))
"""

TESTS = """\
import asyncio

from model import Chat
from partway import connect
from partway.container.testing import serving


async def said(gateway):
    async with connect(gateway.http_url, "model", credentials=gateway.credentials) as stream:
        await stream.send_text("hello")
        return (await stream.receive()).payload


def test_a_client(partway_gateway):
    partway_gateway.container.replies_with("hi")
    assert asyncio.run(said(partway_gateway)) == b"hi"


async def answer():
    async with serving(Chat()) as served, served.stream() as client:
        await client.send("hello")
        return await client.recv()


def test_a_model_with_processes():
    assert asyncio.run(answer()) == "HELLO"
"""


def folders(project: Path, text: str | None) -> None:
    for name in NAMES:
        (project / name).mkdir()
        (project / name / "routes.py").write_text(WRONG)
        if text is not None:
            (project / name / "__init__.py").write_text(text)


@pytest.fixture(params=["folders", "packages", "modules"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project whose own code is named as ours, and must not be taken for it."""
    if request.param == "modules":
        for name in NAMES:
            (tmp_path / f"{name}.py").write_text(WRONG)
    else:
        folders(tmp_path, WRONG if request.param == "packages" else None)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture
def there(project: Path) -> Mapping[str, object]:
    """Options of a process in the project, which is at the front of the path."""
    return {"cwd": project, "env": clean_environment() | {"PYTHONPATH": str(project)}}


@pytest.mark.parametrize(
    ("project", "words"),
    [
        ("folders", ("pytest",)),
        ("folders", ("python", "-m", "pytest")),
        ("packages", ("pytest",)),
        ("modules", ("python", "-m", "pytest")),
    ],
    indirect=["project"],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_its_tests_run_with_our_plugin(installed, project, there, words):
    (project / "test_it.py").write_text(TESTS)
    (project / "conformance.toml").write_text(
        f'command = "{installed}/partway-container serve"\n'
        'env = { PARTWAY_MODEL = "model:Chat" }\n'
        'only = ["control.pong"]\n'
    )
    program, *more = words
    done = subprocess.run(
        [installed / program, *more, "-p", "no:cacheprovider", "--override-ini=addopts="],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **there,
    )
    # Its own two, and of the checks those that the one asked for requires.
    assert re.search(r"^=+ \d passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "conformance.toml ...." in done.stdout
    assert "test_it.py .." in done.stdout


def test_both_commands_run_there(installed, project, there):
    serve = ("serve", "--host", "127.0.0.1", "--port", "0")
    with running(
        installed / "partway-container", *serve, "--model", "model:Chat", **there
    ) as model:
        endpoint = ("--endpoint", f"chat={model}")
        with running(installed / "partway", *serve, *endpoint, **there) as gateway:
            said = subprocess.run(
                [installed / "partway", "invoke", "chat", "--gateway", gateway, "--text", "hello"],
                capture_output=True,
                timeout=60,
                check=False,
                **there,
            )
    assert said.returncode == 0, said.stderr.decode()
    assert said.stdout == b"HELLO\n"


@pytest.mark.parametrize(
    ("module", "usage"),
    [("partway", "usage: partway ["), ("partway.container", "usage: partway-container [")],
)
def test_each_command_is_a_module_too(installed, there, module, usage):
    done = subprocess.run(
        [installed / "python", "-m", module, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        **there,
    )
    assert done.stdout.startswith(usage)


# What is watched, and what is started again, hangs on none of the shapes; it is tried where a wrong
# import would be noticed first.
@pytest.mark.parametrize("project", ["packages"], indirect=True)
def test_a_model_is_reloaded_there(installed, project, there):
    process = subprocess.Popen(
        [installed / "partway", "dev", "model:Chat", "--port", "0", "--reload"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **there,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "ready\n":
                break
        (project / "model.py").write_text(MODEL.replace("upper", "lower"))
        again = [process.stdout.readline() for _ in range(2)]
        process.terminate()
        process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    assert again == ["reloading: model.py\n", "ready\n"]


# --- Beside the sources --------------------------------------------------------------------------


def test_an_editable_installation_shows_one_package_alone(sources, tmp_path):
    bin = environment(None, tmp_path / "environment", editable=sources)
    code = (
        "import importlib.util as u, partway.gateway as g;"
        f"print(g.__file__, *(u.find_spec(name) for name in {(*FOLDERS, 'tests', 'src')}))"
    )
    done = subprocess.run(
        [bin / "python", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env=clean_environment(),
    )
    where, *others = done.stdout.split()
    assert Path(where).is_relative_to(sources)
    assert others == ["None"] * len(others)
