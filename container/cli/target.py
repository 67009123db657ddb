"""The target of ``partway-container serve``: a model, script, application or upstream."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from partway.container.cli import CommandError
from partway.container.model import Model
from partway.container.models import MODELS
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.cli")

#: The flag of each kind of target, and its variable.
KINDS: Mapping[str, str] = {
    "model": "PARTWAY_MODEL",
    "app": "PARTWAY_APP",
    "script": "PARTWAY_SCRIPT",
    "sklearn": "PARTWAY_SKLEARN",
    "upstream": "PARTWAY_UPSTREAM",
}
_DEFAULT = "echo"


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The target to serve.

    Attributes:
        kind: one of ``KINDS``.
        source: the flag or variable that gave it, or other words for it; errors have them.
    """

    kind: str
    name: str
    source: str

    def error(self, text: str, status: int = 2) -> CommandError:
        """Make an error that says where the name came from."""
        return CommandError(f"{self.source} {self.name}: {text}", status)


def choose(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> ModelTarget:
    """Find the single target; any flag goes before the environment.

    Args:
        flags: the value of each flag, by its kind; None if not given.
        environ: the environment; an empty variable counts as unset.

    Raises:
        CommandError: more than one target is given.
    """
    given = [
        ModelTarget(kind, flags[kind] or "", f"--{kind}")
        for kind in KINDS
        if flags[kind] is not None
    ]
    if not given:
        given = [
            ModelTarget(kind, environ[variable], variable)
            for kind, variable in KINDS.items()
            if environ.get(variable)
        ]
    if len(given) > 1:
        both = " and ".join(f"{target.source} {target.name}" for target in given)
        raise CommandError(f"{both} are given; a container must serve one of them")
    return given[0] if given else ModelTarget("model", _DEFAULT, "the default model")


def make_model(target: ModelTarget) -> Model:
    """Import a model's class and create the model.

    Raises:
        CommandError: no model has that name, or it cannot be created.
    """
    kind = _model_class(target)
    try:
        return kind()
    except Exception as error:
        raise _failed(target, f"{kind.__name__}() failed", error) from error


def _model_class(target: ModelTarget) -> type[Model]:
    name = MODELS.get(target.name, target.name)
    if ":" not in name:
        shipped = ", ".join(sorted(MODELS))
        raise target.error(f"it must be a shipped model ({shipped}), or your own as module:Class")
    if name == target.name:
        put_on_path(Path.cwd())
    module_name, _, attribute = name.partition(":")
    module = _import(target, module_name)
    found = getattr(module, attribute, None)
    if isinstance(found, type) and issubclass(found, Model) and found is not Model:
        return found
    if found is None:
        problem = f"{module_name} has no {attribute!r}"
    else:
        problem = f"{attribute} must be a subclass of partway.Model"
    raise target.error(f"{problem}; {_models_in(module)}")


def _import(target: ModelTarget, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise target.error(
            f"{name!r} must be the name of a Python module, such as model for the file model.py"
        )
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise target.error(
                f"there is no module {missing} in {Path.cwd()} or on Python's path; "
                "run this in the folder that has it"
            ) from None
        raise _failed(target, f"importing {name} failed", error) from error


def _models_in(module: ModuleType) -> str:
    names = sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Model) and value is not Model
    )
    return f"models in {module.__file__ or module.__name__}: {', '.join(names) or 'none'}"


def _failed(target: ModelTarget, what: str, error: BaseException) -> CommandError:
    """Make the error for an exception of the author's code; the log gets the traceback."""
    _log.error(LogLine("loading failed", reason=what), exc_info=error)
    return target.error(f"{what}: {one_line(error)}", status=1)


def one_line(error: BaseException | None) -> str:
    """Format an exception for the end of a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def put_on_path(folder: Path) -> None:
    """Put a folder on the module path, before installed packages."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
