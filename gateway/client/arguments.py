"""What is said of an argument of the wrong type: what was given, what it must be, what takes it."""

from __future__ import annotations

from partway.protocol.parts import CompletionState, DataType, PayloadPart


def wrong_type(name: str, value: object, wanted: str, other: str) -> TypeError:
    """The error for an argument of the wrong type.

    Args:
        name: the argument's.
        value: what was given.
        wanted: what it must be, with its article.
        other: the method that takes text where this one takes bytes, or the other way round.
    """
    hint = f"; {other} takes it" if isinstance(value, str | bytes | bytearray | memoryview) else ""
    return TypeError(f"{name}: {_kind(value)} was given; it must be {wanted}{hint}")


def check_part(part: object) -> None:
    """Refuse what is no part, before anything of it is on the wire.

    Raises:
        TypeError: ``part`` is no PayloadPart, or one of its members is not of its type.
    """
    if not isinstance(part, PayloadPart):
        other = "send_text()" if isinstance(part, str) else "send_bytes()"
        raise wrong_type("part", part, "a PayloadPart", other)
    if not isinstance(part.payload, bytes):
        raise TypeError(f"part.payload: {_kind(part.payload)} was given; it must be bytes")
    if not isinstance(part.data_type, DataType):
        raise TypeError(
            f"part.data_type: {_kind(part.data_type)} was given; it must be a DataType, "
            "as in DataType.UTF8"
        )
    if not isinstance(part.completion, CompletionState):
        raise TypeError(
            f"part.completion: {_kind(part.completion)} was given; it must be a "
            "CompletionState, as in CompletionState.PARTIAL"
        )


def _kind(value: object) -> str:
    """The type of a value, with its article."""
    if value is None:
        return "None"
    name = type(value).__name__
    if isinstance(value, bytes):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
