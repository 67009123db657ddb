"""The plan of a conformance run, made from the options of a command or a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from partway.gateway.configuration.messages import SettingsError, each_line
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.processes.commands import command_words
from partway.gateway.network.dialling import Address
from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.storage.files import is_file_or_folder, is_folder
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.image import CHECKS, examine, read_image
from partway.gateway.workbench.conformance.launched_image import LaunchedImage
from partway.gateway.workbench.conformance.probes import BUILT_IN, Probe, load_probe
from partway.gateway.workbench.conformance.run import Report, chosen, is_named
from partway.gateway.workbench.conformance.started_container import Started
from partway.gateway.workbench.conformance.subject import Launched, Subject, Target
from partway.gateway.workbench.recording.recording import RecordingError
from partway.protocol.errors import InputValidationError


class AskedWrongly(Exception):
    """The checks cannot be tried with these options; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """The options of a run, as they were written.

    Exactly one of ``command``, ``url``, ``image`` and ``tag`` is not None.

    Attributes:
        command: starts a container, in one string.
        image: the archive of an image.
        tag: the name of an image, as a container engine knows it.
        env: variables in the environment of the command, or of the image's container.
        model_dir: the model's artifacts; None for an empty folder.
        cwd: the folder in which the command runs; None for the current one.
        path: the path of streams, without a leading slash; empty for the documented path.
        probe: the question to the model: a name or a file.
        fast: whether long waits are cut short.
        only: ids of checks, or names of their areas; None for all checks.
        called: gives an option's name as its user wrote it, for messages.
    """

    command: str | None = None
    url: str | None = None
    image: Path | None = None
    tag: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    model_dir: Path | None = None
    cwd: Path | None = None
    path: str = ""
    query: str = ""
    probe: str | Path = "echo"
    fast: bool = False
    only: Sequence[str] | None = None
    called: Callable[[str], str] = "--{}".format


@dataclass(frozen=True, slots=True)
class Plan:
    """A valid question, with the checks and the container that follow from it.

    Attributes:
        target: path and query of streams.
        address: the address of a container that runs; None for a command or an image.
        command: starts a container; empty for a container that runs, or an image.
        image_checks: the checks of the configuration of an engine's image, which are tried first.
    """

    question: Question
    checks: Sequence[Check]
    probe: Probe
    target: Target
    address: Address | None = None
    command: tuple[str, ...] = ()
    image_checks: Sequence[Check] = ()

    def examined(self) -> Report:
        """Check the image's archive.

        Raises:
            AskedWrongly: the image cannot be read.
        """
        path, called = self.question.image, self.question.called
        assert path is not None, "an image was asked for"
        try:
            image = read_image(path)
        except ArchiveError as error:
            raise AskedWrongly(f"{called('image')} {path}: {error}") from error
        except OSError as error:
            raise AskedWrongly(f"{called('image')} {path}: {error.strerror or error}") from error
        return examine(image, f"image {path}", self.checks)

    @asynccontextmanager
    async def subject(self) -> AsyncIterator[Subject]:
        """Open the container to check. One that was started here is killed at the block's end.

        Raises:
            AskedWrongly: the container cannot be started.
        """
        if self.address is not None:
            yield Subject(self.address, self.target)
            return
        asked = self.question
        started: Started = (
            Launched(self.command, asked.env, asked.model_dir, asked.cwd)
            if asked.tag is None
            else LaunchedImage(asked.tag, asked.env, asked.model_dir)
        )
        try:
            try:
                address = await started.start()
            except LaunchError as error:
                called = asked.called
                what = called("command") if self.command else f"{called('image')} {asked.tag}"
                raise AskedWrongly(f"{what}: {error}") from error
            yield Subject(address, self.target, started)
        finally:
            await started.aclose()

    async def examined_by_engine(self) -> Report:
        """Check the configuration of an engine's image.

        Raises:
            AskedWrongly: there is no such image, or no engine.
        """
        tag, called = self.question.tag, self.question.called
        assert tag is not None, "an engine's image was asked for"
        launched = LaunchedImage(tag)
        try:
            image = await launched.configuration()
        except LaunchError as error:
            raise AskedWrongly(f"{called('image')} {tag}: {error}") from error
        finally:
            await launched.aclose()
        return examine(image, f"image {tag}", self.image_checks)


def understood(question: Question) -> Plan:
    """Make a plan of a question; nothing is started yet.

    Raises:
        AskedWrongly: the question makes no sense.
    """
    called = question.called
    is_started = question.command is not None or question.tag is not None
    if not is_started and (question.env or question.model_dir):
        both = f"{called('env')} and {called('model-dir')}"
        raise AskedWrongly(f"{both} are for a container started with {called('command')}")
    if question.image is not None:
        elsewhere = f"with {called('url')} or {called('command')}"
        checks = _chosen(CHECKS, question, ALL, elsewhere)
        return Plan(question, checks, BUILT_IN["echo"], Target())
    if question.tag is not None:
        _check_model_dir(question)
        chosen_ones = _chosen([*CHECKS, *ALL], question, (), "")
        of_image = [check for check in chosen_ones if check in CHECKS]
        checks = [check for check in chosen_ones if check not in CHECKS]
        probe, target = _probe(question), _target(question)
        return Plan(question, checks, probe, target, image_checks=of_image)
    checks = _chosen(ALL, question, CHECKS, f"with {called('image')}")
    probe = _probe(question)
    target = _target(question)
    if question.url is not None:
        try:
            address = container_address(question.url)
        except ValueError as error:
            raise AskedWrongly(f"{called('url')}: {error}") from error
        return Plan(question, checks, probe, target, address)
    return Plan(question, checks, probe, target, command=_command(question))


def _chosen(
    checks: Iterable[Check], question: Question, others: Iterable[Check], where: str
) -> list[Check]:
    """The checks that ``only`` names. The message for one of ``others`` names ``where``."""
    only = question.called("only")
    try:
        return chosen(list(checks), question.only)
    except ValueError as error:
        named = question.only or ()
        strange = {each for each in named for other in others if is_named(other, each)}
        if strange:
            raise AskedWrongly(f"{only}: {min(strange)} can be checked only {where}") from error
        raise AskedWrongly(f"{only}: {error}") from error


def _probe(question: Question) -> Probe:
    name, called = question.probe, question.called("probe")
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if not is_file_or_folder(path):
        raise AskedWrongly(
            f"{called} {name}: there is no such file; it must be a file or one of "
            f"{', '.join(BUILT_IN)}"
        )
    try:
        return load_probe(path)
    except (SettingsError, RecordingError) as error:
        raise AskedWrongly(each_line(f"{called} ", str(error))) from error


def _target(question: Question) -> Target:
    called = question.called
    try:
        asked = InvocationTarget(question.path.removeprefix("/"), question.query).path_and_query()
    except InputValidationError as error:
        raise AskedWrongly(f"{called('path')} or {called('query')}: {error.message}") from error
    path, _, query = asked.removeprefix("/").partition("?")
    return Target(path, query)


def _command(question: Question) -> tuple[str, ...]:
    called = question.called
    assert question.command is not None, "one of the three is asked for"
    try:
        command = command_words(question.command)
    except ValueError as error:
        raise AskedWrongly(f"{called('command')}: {error}") from error
    _check_model_dir(question)
    return command


def _check_model_dir(question: Question) -> None:
    folder = question.model_dir
    if folder is not None and not is_folder(folder):
        raise AskedWrongly(f"{question.called('model-dir')} {folder}: there is no such folder")
