"""The order of named columns in a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Names that a message lists.
_SHOWN: Final = 16


class ColumnOrder:
    """Puts named values into one order: the model's, or that of the first record.

    pandas uses the order of the first record for a list of objects.

    Args:
        names: the model's columns in their order; None if the model does not name them.

    Attributes:
        names: the order; None until a record has set it.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = None if names is None else tuple(names)
        self._are_the_model_s = names is not None

    def values(self, record: Mapping[str, Any]) -> list[Any]:
        """Return the record's values in the order.

        Raises:
            ValueError: a column is missing or unknown. The message never quotes the client's column
                names.
        """
        if self.names is None:
            self.names = tuple(record)
        if record.keys() != set(self.names):
            raise ValueError(self._fault(record))
        return [record[name] for name in self.names]

    def knows(self, name: str) -> bool:
        return self._are_the_model_s and self.names is not None and name in self.names

    def _fault(self, record: Mapping[str, Any]) -> str:
        assert self.names is not None, "it is set by now"
        missing = [name for name in self.names if name not in record]
        if not self._are_the_model_s:
            return (
                "the columns differ from those of record 0; all records must have columns with the "
                "same names"
            )
        shown = ", ".join(self.names[:_SHOWN]) + (", …" if len(self.names) > _SHOWN else "")
        if missing:
            return f"the column {missing[0]!r} is missing; the columns must be {shown}"
        unknown = len(record) - len(self.names)
        return f"{unknown} columns are unknown to the model; the columns must be {shown}"
