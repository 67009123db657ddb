"""TF Serving's columns: a tensor per input instead of an instance per row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from partway.protocol.json.splicing import elements_of, kind_of, members_of, rows_of
from partway.protocol.json.strict import string_of
from partway.protocol.limits import NAMES_ANYWAY, NAMES_PER_BYTE
from partway.protocol.prediction.checkpoints import checkpoint
from partway.protocol.prediction.signature_checks import SignatureFault

if TYPE_CHECKING:
    from partway.protocol.json.splicing import Text

COLUMNS: Final = '{"inputs": […]} or {"inputs": {"NAME": […], …}}'

#: The first byte of an object.
_OBJECT: Final = ord("{")

#: Rows between two checkpoints.
_BLOCK: Final = 256

#: Characters of a name that a message repeats.
_MAX_NAME: Final = 60


def as_instances(
    text: bytes, members: dict[str, Any], *, wrap: bool = False
) -> tuple[bytes, list[Any] | dict[str, list[Any]]]:
    """Convert a body with columns to one with instances.

    Args:
        text: the body, which is valid JSON.
        members: its parsed members; ``inputs`` is one of them.
        wrap: whether rows of a table are wrapped, ``{"data": …}``, unless ``data`` is its only
            column.

    Returns:
        The body; and the parsed inputs: an array of instances, or an object of columns.

    Raises:
        SignatureFault: there are instances too, the columns' lengths differ, or the names are too
            long to be repeated in each instance.
    """
    if "instances" in members:
        raise SignatureFault(
            "the body has both instances and inputs; it must have only one of them"
        )
    inputs, texts = members["inputs"], members_of(text)
    if isinstance(inputs, dict) and inputs and inputs.keys() != {"b64"}:
        wraps = wrap and inputs.keys() != {"data"}
        written: Text = b"[%b]" % b", ".join(_transposed(inputs, texts["inputs"], wrap=wraps))
    elif isinstance(inputs, list) and inputs:
        written = texts["inputs"]
    else:
        raise SignatureFault(f"inputs: {kind_of(inputs)}; it must have tensors: {COLUMNS}")
    others = (
        b", %b: %b" % (string_of(name), each) for name, each in texts.items() if name != "inputs"
    )
    return b'{"instances": %b%b}' % (written, b"".join(others)), inputs


def as_outputs(predictions: bytes) -> bytes:
    """Convert predictions to columns, as TF Serving answers a request by columns.

    Args:
        predictions: the text of an array.

    Returns:
        The text of an object of columns, if all predictions are objects with the same members;
        otherwise the array itself.
    """
    rows = elements_of(predictions)
    if not rows or any(memoryview(each)[0] != _OBJECT for each in rows):
        return predictions
    first = members_of(rows[0])
    if not first or first.keys() == {"b64"}:
        return predictions
    columns: dict[str, list[Text]] = {name: [] for name in first}
    for number, row in enumerate(rows):
        if number % _BLOCK == 0:
            checkpoint()
        members = members_of(row)
        if members.keys() != first.keys():
            return predictions
        for name, each in members.items():
            columns[name].append(each)
    written = (b"%b: [%b]" % (string_of(name), b", ".join(each)) for name, each in columns.items())
    return b"{%b}" % b", ".join(written)


def check_names_fit(names: Iterable[str], instances: int, size: int) -> None:
    """Refuse names that would outweigh a body once each instance repeats them.

    ``size`` is the number of bytes of the request.

    Raises:
        SignatureFault: the names would take more than :data:`NAMES_PER_BYTE` times ``size``.
    """
    most = max(NAMES_ANYWAY, NAMES_PER_BYTE * size)
    written = instances * sum(len(string_of(name)) for name in names)
    if written > most:
        raise SignatureFault(
            f"the inputs' names, written in each of {instances} instances, have {written} bytes; "
            f"they must have at most {most}: use shorter names, or send fewer instances at a time"
        )


def _transposed(inputs: dict[str, Any], text: Text, *, wrap: bool) -> Iterator[bytes]:
    for name, column in inputs.items():
        if not isinstance(column, list) or not column:
            raise SignatureFault(
                f"inputs: {name[:_MAX_NAME]!r}: {kind_of(column)}; it must be an array of one "
                "value for each instance"
            )
    lengths = {name: len(column) for name, column in inputs.items()}
    if len({*lengths.values()}) > 1:
        (least, most) = sorted(lengths.items(), key=lambda each: each[1])[:: len(lengths) - 1]
        raise SignatureFault(
            f"inputs: {least[0][:_MAX_NAME]!r} has {least[1]} values and {most[0][:_MAX_NAME]!r} "
            f"{most[1]}; there must be one for each instance"
        )
    size = memoryview(text).nbytes
    check_names_fit(inputs, lengths.popitem()[1], size)
    names = [string_of(name) for name in inputs]
    start, end = (b'{"data": {', b"}}") if wrap else (b"{", b"}")
    seams = [start + names[0] + b": ", *(b", %b: " % each for each in names[1:]), end]
    texts = members_of(text)
    return rows_of(seams, [elements_of(texts[name]) for name in inputs])
