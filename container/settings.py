"""Typed settings of a model, read from environment variables.

pydantic is imported with this module, so only where a model has settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from partway.container.errors import SettingsRefused
from partway.service_links import is_link
from partway.unknown_names import describe_unknown

_PREFIX: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*_")
#: Begins the variables of the project's own commands and models.
_OURS: Final = "PARTWAY_"
#: Characters of a wrong value that are shown.
_MAX_SHOWN: Final = 40

#: A value's type, in words.
_KINDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    SecretStr: "text",
    SecretBytes: "text",
}
#: The bounds of numbers, as pydantic and annotated-types name them.
_BOUNDS: Final[Mapping[str, str]] = {
    "ge": "at least",
    "gt": "above",
    "le": "at most",
    "lt": "below",
}


class Settings(BaseModel):
    """Settings of a model, each with a type, a default and a range.

    ::

        class TalkSettings(Settings, prefix="TALK_"):
            voice: Literal["low", "high"] = "low"
            pause: float = Field(0.1, ge=0, le=5)
            key: SecretStr = SecretStr("")


        class Talker(Model):
            settings_type = TalkSettings
            settings: TalkSettings

    The variable of a setting is the prefix and the name in capitals: ``TALK_VOICE``. A field's
    ``validation_alias`` stands in for its name. The runtime reads the variables into
    ``self.settings`` before :meth:`~partway.Model.load`.

    Errors say what a value must be by the field's type and range, or by its ``description``. The
    text of a validator's ``ValueError`` is shown as it is. The value of a field of the type
    ``pydantic.SecretStr`` is never shown.

    Raises:
        ValueError: the prefix is not one of variables, or belongs to Partway.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_by_name=True
    )

    variable_prefix: ClassVar[str] = ""

    def __init_subclass__(cls, *, prefix: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        prefix = prefix or cls.variable_prefix
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(
                f"{cls.__name__}: prefix {prefix!r} was given; it must be capitals with an "
                "underscore at the end, such as TALK_"
            )
        if prefix.startswith(_OURS) and not cls.__module__.startswith("partway."):
            raise ValueError(
                f"{cls.__name__}: prefix {prefix!r} was given; variables {_OURS}… are Partway's "
                "own, so choose another"
            )
        cls.variable_prefix = prefix

    @classmethod
    def variables(cls) -> dict[str, str]:
        """Return the name of each field, by its variable."""
        return {
            f"{cls.variable_prefix}{_public_name(name, field).upper()}": name
            for name, field in cls.model_fields.items()
        }

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, flags: bool = True) -> Self:
        """Read the settings; a variable that is empty counts as unset.

        Args:
            environment: the variables.
            flags: whether ``--set`` sets them too, for messages.

        Raises:
            SettingsRefused: a variable is wrong, missing or unknown.
        """
        variables = cls.variables()
        own = {
            variable: value
            for variable, value in environment.items()
            if variable.startswith(cls.variable_prefix) and not is_link(variable, value)
        }
        unknown = own.keys() - variables.keys()
        listed = ", ".join(sorted(variables))
        faults = describe_unknown(unknown, cls.variable_prefix, variables, listed)
        given = {
            variables[variable]: value
            for variable, value in own.items()
            if variable in variables and value
        }
        try:
            settings = cls(**given)
        except ValidationError as error:
            faults += cls._faults_of(error, environment, flags=flags)
        if faults:
            # The cause would repeat pydantic's own words.
            raise SettingsRefused("\n".join(faults)) from None
        return settings

    @classmethod
    def _faults_of(
        cls, error: ValidationError, environment: Mapping[str, str], *, flags: bool
    ) -> Iterable[str]:
        by_name = {
            shown: variable
            for variable, name in cls.variables().items()
            for shown in (name, _public_name(name, cls.model_fields[name]))
        }
        for fault in error.errors(include_url=False, include_input=False):
            if not fault["loc"]:  # of all fields together
                yield f"{cls.variable_prefix}…: {_reason(fault)}"
                continue
            variable = by_name[str(fault["loc"][0])]
            field = cls.model_fields[cls.variables()[variable]]
            if fault["type"] == "missing":
                name = variable.removeprefix(cls.variable_prefix).lower()
                yield _missing(f"{variable} (--set {name}=…)" if flags else variable, field)
            else:
                yield _fault(variable, environment.get(variable, ""), field, fault)


def _public_name(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def _fault(variable: str, value: str, field: FieldInfo, fault: Mapping[str, Any]) -> str:
    if fault["type"] in ("value_error", "assertion_error"):
        return f"{variable}: {_reason(fault)}"
    if _is_secret(field.annotation):
        found = f"{variable} has a value that is not shown"
    else:
        found = f"{variable} is {value[:_MAX_SHOWN]!r}"
    words = field.description or _words(field)
    return f"{found}; it must be {words}" if words else f"{found}: {fault['msg']}"


def _missing(variable: str, field: FieldInfo) -> str:
    words = field.description or _words(field)
    return f"{variable} is not set, or is empty" + (f"; it must be {words}" if words else "")


def _reason(fault: Mapping[str, Any]) -> str:
    """Return a validator's own words, or else pydantic's."""
    return str(fault.get("ctx", {}).get("error", fault["msg"]))


def _is_secret(annotation: Any) -> bool:
    return annotation in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(annotation)))


def _words(field: FieldInfo) -> str:
    """Describe the values that a field takes; empty for a type that has no words here."""
    kinds = [each for each in get_args(field.annotation) if each is not NoneType]
    kind = kinds[0] if NoneType in get_args(field.annotation) else field.annotation
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if kind not in _KINDS:
        return ""
    noted = {
        name: value
        for note in field.metadata
        for name in (*_BOUNDS, "min_length", "max_length", "pattern")
        if (value := getattr(note, name, None)) is not None
    }
    words = _KINDS[kind]
    if {"ge", "le"} <= noted.keys():
        words += f" from {noted['ge']} to {noted['le']}"
    elif bounds := [f"{word} {noted[name]}" for name, word in _BOUNDS.items() if name in noted]:
        words += f", {' and '.join(bounds)}"
    lengths = [
        f"{word} {noted[name]}"
        for name, word in (("min_length", "at least"), ("max_length", "at most"))
        if name in noted
    ]
    if lengths:
        words += f" of {' and '.join(lengths)} characters"
    if "pattern" in noted:
        words += f" that matches {noted['pattern']}"
    return words
