"""Settings of ``partway-container serve``: each has a flag and a variable."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from partway.container.cli import CommandError
from partway.container.limits import FINISH_TIMEOUT
from partway.container.server import MODEL_DIR
from partway.log_lines import LOG_FORMATS, LogFormat

if TYPE_CHECKING:
    from partway.container.settings import Settings  # pydantic, which few models need

_Word = TypeVar("_Word", bound=str)

LOG_LEVELS: Final = ("debug", "info", "warning", "error")

#: Where the platform reaches a container (clause 1.1-2).
PORT: Final = 8080


class _Given(NamedTuple):
    """A text, with the flag or variable that it comes from."""

    source: str
    text: str


def _given(flag: str, text: str | None, variable: str, environ: Mapping[str, str]) -> _Given | None:
    """Return the flag if given, else its variable; an empty variable is not set."""
    if text is not None:
        return _Given(flag, text)
    if said := environ.get(variable):
        return _Given(variable, said)
    return None


def read_log_level(flag: str | None, environ: Mapping[str, str]) -> str:
    """Return the log's level.

    Raises:
        CommandError: the variable has an unknown level; the parser has checked the flag already.
    """
    return _known(flag, "PARTWAY_LOG_LEVEL", environ, LOG_LEVELS) or "info"


def read_log_format(flag: LogFormat | None, environ: Mapping[str, str]) -> LogFormat:
    """Return the format of the log's lines.

    Raises:
        CommandError: the variable has an unknown format.
    """
    return _known(flag, "PARTWAY_LOG_FORMAT", environ, LOG_FORMATS) or "text"


def _known(
    flag: _Word | None, variable: str, environ: Mapping[str, str], words: Sequence[_Word]
) -> _Word | None:
    said = flag or environ.get(variable)
    if not said:
        return None
    for word in words:
        if word == said:
            return word
    raise CommandError(f"{variable} {said!r} was given; it must be one of {', '.join(words)}")


def read_host(flag: str | None, environ: Mapping[str, str]) -> str:
    """Return the address to listen on; by default one reachable from outside (clause 1.1-2)."""
    said = _given("--host", flag, "PARTWAY_BIND_TO_HOST", environ)
    return "0.0.0.0" if said is None else said.text  # noqa: S104


def read_port(flag: str | None, environ: Mapping[str, str]) -> int:
    """Return the TCP port to listen on; 0 is any free one.

    Raises:
        CommandError: the text is not such a number.
    """
    said = _given("--port", flag, "SAGEMAKER_BIND_TO_PORT", environ)
    if said is None:
        return PORT
    source, text = said
    if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535:
        return int(text)
    raise CommandError(f"{source} {text!r} was given; it must be a whole number from 0 to 65535")


def read_model_dir(flag: str | None, environ: Mapping[str, str]) -> Path:
    """Return the folder that the model loads from.

    Raises:
        CommandError: the given folder does not exist.
    """
    said = _given("--model-dir", flag, "SM_MODEL_DIR", environ)
    if said is None:
        return MODEL_DIR
    source, text = said
    if not Path(text).is_dir():
        raise CommandError(f"{source} {text}: there is no such folder")
    return Path(text)


def read_show_errors(*, flag: bool, environ: Mapping[str, str]) -> bool:
    """Return whether clients are shown a model's exceptions.

    Raises:
        CommandError: the variable is neither 0 nor 1.
    """
    said = environ.get("PARTWAY_SHOW_ERRORS")
    if flag or not said:
        return flag
    return _known(None, "PARTWAY_SHOW_ERRORS", environ, ("0", "1")) == "1"


def read_method(
    flag: str | None, environ: Mapping[str, str], known: Sequence[_Word]
) -> _Word | None:
    """Return the method to call on a scikit-learn model; None if none is given.

    Raises:
        CommandError: there is no such method.
    """
    text = flag or environ.get("PARTWAY_METHOD")
    source = "--method" if flag else "PARTWAY_METHOD"
    found = next((word for word in known if word == text), None)
    if text and found is None:
        raise CommandError(f"{source} {text!r} was given; it must be one of {', '.join(known)}")
    return found


def read_finish_timeout(flag: str | None, environ: Mapping[str, str]) -> float:
    """Return how long a stream's model may be silent at its end, in seconds (clause 1.5-12).

    Raises:
        CommandError: the text is not such a number.
    """
    said = _given("--finish-timeout", flag, "PARTWAY_FINISH_TIMEOUT", environ)
    if said is None:
        return FINISH_TIMEOUT
    source, text = said
    with suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < math.inf:
            return seconds
    raise CommandError(f"{source} {text!r} was given; it must be a number of seconds above 0")


def set_variables(
    given: Sequence[str],
    model: str,
    settings_type: type[Settings] | None,
    environ: MutableMapping[str, str],
) -> None:
    """Set the variables of a model's settings.

    Args:
        given: ``NAME=VALUE`` each.
        model: the model's name, for errors.
        settings_type: the model's; None if it has no settings.
        environ: changed.

    Raises:
        CommandError: the text has another form, or the model has no such setting.
    """
    prefix = settings_type.variable_prefix if settings_type else ""
    known = settings_type.variables() if settings_type else {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError("--set must have NAME=VALUE, such as upstream=http://localhost/v1")
        variable = f"{prefix}{name.upper()}"
        if variable not in known:
            names = ", ".join(sorted(each.removeprefix(prefix).lower() for each in known))
            # The value may be a secret.
            which = names or "no settings"
            raise CommandError(f"--set {name}=… was given; the model {model} has {which}")
        environ[variable] = value
