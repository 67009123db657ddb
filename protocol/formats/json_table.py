"""Tables in JSON, in all forms that prediction services accept.

=============================================== ================================================
``[[…], …]``, ``[{"COLUMN": …}, …]``            rows; pandas' orientation ``records``
``[…]`` of numbers                              one row
``{"instances": […]}``                          Vertex AI, KServe V1, TF Serving, SageMaker
``{"inputs": …}``                               TF Serving's columns; or tensors of KServe's V2
``{"columns": […], "data": […]}``               pandas' orientation ``split``
``{"dataframe_split": …}``                      MLflow, as is ``{"dataframe_records": …}``
``{"COLUMN": […], …}``, ``{"COLUMN": …, …}``    columns by name; one record
=============================================== ================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from partway.protocol.formats.column_order import ColumnOrder
from partway.protocol.formats.instances import KINDS, cells_of, is_of_the_schema, record_of
from partway.protocol.limits import MAX_DENSE_NUMBERS
from partway.protocol.open_inference.mapping import instances_of
from partway.protocol.open_inference.requests import InferFault, InferRequest, tensors_of
from partway.protocol.open_inference.tensors import TensorFault

FORMS: Final = '[[…], …], {"instances": […]}, {"inputs": …} or {"columns": […], "data": […]}'

#: Members that may appear beside the rows of any form.
_BESIDE: Final = frozenset({"configuration", "parameters", "signature_name", "id", "outputs"})
_TENSOR: Final = frozenset({"name", "shape", "datatype"})


class NotATable(ValueError):
    """JSON that is not a table.

    Attributes:
        record: the number of the record at fault, from 0; None if no record is at fault.
    """

    def __init__(self, why: str, record: int | None = None) -> None:
        super().__init__(why)
        self.record = record


@dataclass(frozen=True, slots=True)
class JsonTable:
    """Rows of a body.

    Attributes:
        rows: the values of each record; rows may differ in length.
        names: names of the columns, in the order of the rows; None if no record has named them.
        asks_for_predictions: whether the answer must be ``{"predictions": […]}``.
        of_scalars: whether each record came as one value, without an array or an object around it.
    """

    rows: list[list[Any]]
    names: tuple[str, ...] | None
    asks_for_predictions: bool
    of_scalars: bool = False


def table_of(
    body: object, names: Sequence[str] | None = None, width: int | None = None
) -> JsonTable:
    """Read a parsed body.

    Args:
        body: the parsed JSON. Whole numbers in tensors' shapes must be ``int``.
        names: the model's columns in their order; None if it does not name them.
        width: required number of values of a record; None if unknown.

    Raises:
        NotATable: the body has none of the forms, or its columns do not match.
    """
    reader = _Reader(ColumnOrder(names), width)
    if isinstance(body, list):
        return reader.table(reader.bare(body), of_scalars=reader.scalars)
    if not isinstance(body, dict):
        raise NotATable(f"{KINDS[type(body)]} was given; it must be {FORMS}")
    for member, read in reader.wrapped.items():
        if member in body:
            _check_alone(body, member)
            rows = read(body[member])
            return reader.table(rows, asks=True, of_scalars=reader.scalars)
    if body.keys() >= {"columns", "data"}:
        return reader.table(reader.split(body))
    if not is_of_the_schema(body, reader.order) and _is_columns(body):
        return reader.table(reader.columns(body))
    return reader.table(reader.records([body]))


class _Reader:
    """Reads one body.

    Attributes:
        scalars: whether all records so far are single values.
    """

    def __init__(self, order: ColumnOrder, width: int | None) -> None:
        self.order = order
        self.scalars = False
        self._width = width
        self._filled = 0
        self.wrapped: Mapping[str, Callable[[Any], list[list[Any]]]] = {
            "instances": lambda value: self.records(_array(value, "instances")),
            "inputs": self.inputs,
            "dataframe_records": lambda value: self.records(_array(value, "dataframe_records")),
            "dataframe_split": self.split,
        }

    def table(
        self, rows: list[list[Any]], *, asks: bool = False, of_scalars: bool = False
    ) -> JsonTable:
        if not rows:
            raise NotATable("the body has no record")
        return JsonTable(rows, self.order.names, asks, of_scalars)

    def bare(self, values: list[Any]) -> list[list[Any]]:
        """Return rows, or the values of a single row; of strings, each one is a record."""
        if any(isinstance(each, list | dict) for each in values):
            return self.records(values)
        is_row = self._width is not None and self._width == len(values) > 1
        if values and not is_row and all(isinstance(each, str) for each in values):
            self.scalars = True
            return [[each] for each in values]
        return [values] if values else []

    def records(self, values: list[Any]) -> list[list[Any]]:
        self.scalars = not any(isinstance(each, list | dict) for each in values)
        rows = []
        for number, each in enumerate(values):
            try:
                rows.append(self._record(each))
            except ValueError as error:
                raise NotATable(str(error), number) from None
        return rows

    def _record(self, value: object) -> list[Any]:
        if not is_of_the_schema(value, self.order):
            return cells_of(value, self._width, self.order)
        assert isinstance(value, dict), "so has a record of the schema"
        only = next(iter(value.values()))
        if len(value) == 1 and isinstance(only, list):
            return only  # regardless of its values
        row = record_of(value, self._width, self.order).row
        if row.keys is None:
            return [*row.values.tolist()]
        self._filled += row.width
        if self._filled > MAX_DENSE_NUMBERS:
            raise ValueError(
                f"with their zeros, the sparse records have more than {MAX_DENSE_NUMBERS} numbers: "
                "send fewer records"
            )
        dense = np.zeros(row.width)
        dense[row.keys] = row.values
        return [*dense.tolist()]

    def inputs(self, value: object) -> list[list[Any]]:
        if isinstance(value, dict):
            return self.columns(value)
        values = _array(value, "inputs")
        if values and all(isinstance(each, dict) and each.keys() >= _TENSOR for each in values):
            return self._tensors(values)
        return self.records(values)

    def _tensors(self, values: list[Any]) -> list[list[Any]]:
        try:
            tensors = tuple(tensors_of({"inputs": values}, "inputs", b"", 0))
            instances = json.loads(instances_of(InferRequest(tensors)).body)["instances"]
        except (InferFault, TensorFault) as fault:
            raise NotATable(f"inputs: {fault}") from None
        if tensors[0].shape == (self._width,) and len(tensors) == 1:
            return [instances]  # one record with as many values as the model takes
        return self.records(instances)

    def columns(self, value: Mapping[str, Any]) -> list[list[Any]]:
        """Read columns by name; a single column may hold rows."""
        for column in value.values():
            if not isinstance(column, list):
                raise NotATable(
                    f"a column is {KINDS[type(column)]}; it must be an array with one value for "
                    "each record"
                )
        lengths = {len(column) for column in value.values()}
        if len(lengths) > 1:
            raise NotATable(
                f"the columns have {min(lengths)} to {max(lengths)} values; each column must have "
                "one value for each record"
            )
        records = zip(*value.values(), strict=True)
        return self.records([dict(zip(value, each, strict=True)) for each in records])

    def split(self, value: object) -> list[list[Any]]:
        if not isinstance(value, dict) or not value.keys() <= {"columns", "data", "index"}:
            raise NotATable('a table must be {"columns": […], "data": [[…], …]}')
        columns = _array(value.get("columns"), "columns")
        if not all(isinstance(name, str) for name in columns):
            raise NotATable("columns must be an array of names, which are strings")
        if len(set(columns)) != len(columns):
            raise NotATable(
                "columns has the same name twice; each column must have a different name"
            )
        rows = _array(value.get("data"), "data")
        try:
            places = self.order.values({name: place for place, name in enumerate(columns)})
        except ValueError as error:
            raise NotATable(str(error)) from None
        for number, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(columns):
                raise NotATable(f"it must be an array of {len(columns)} values", number)
        return [[row[place] for place in places] for row in rows]


def _array(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise NotATable(f"{name}: {KINDS[type(value)]} was given; it must be an array")
    return value


def _check_alone(body: Mapping[str, Any], member: str) -> None:
    if not body.keys() - {member} <= _BESIDE:
        raise NotATable(
            f"there are unknown members beside {member}; only these may be beside it: "
            f"{', '.join(sorted(_BESIDE))}"
        )


def _is_columns(body: Mapping[str, Any]) -> bool:
    return bool(body) and all(isinstance(each, list) for each in body.values())
