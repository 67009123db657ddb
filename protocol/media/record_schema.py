"""The schema of protobuf records, ``aialgs.data`` (proto2), built at run time.

In a pool of its own: SageMaker's SDK registers the same names in the default one, and generated
code refuses runtimes that are older than it.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_OPTIONAL: Final = _Field.LABEL_OPTIONAL
_REPEATED: Final = _Field.LABEL_REPEATED
_PACKAGE: Final = "aialgs.data"

#: A tensor's member in ``Value``, by the type of its numbers; and the member's number.
TENSORS: Final = {
    "float32": ("float32_tensor", 2, "Float32Tensor", _Field.TYPE_FLOAT),
    "float64": ("float64_tensor", 3, "Float64Tensor", _Field.TYPE_DOUBLE),
    "int32": ("int32_tensor", 7, "Int32Tensor", _Field.TYPE_INT32),
}


def _message(file: Any, name: str) -> Any:
    message = file.message_type.add()
    message.name = name
    return message


def _field(message: Any, name: str, number: int, kind: Any, label: Any = _OPTIONAL) -> Any:
    field = message.field.add(name=name, number=number, type=kind, label=label)
    if label == _REPEATED and kind not in {_Field.TYPE_MESSAGE, _Field.TYPE_BYTES}:
        field.options.packed = True
    return field


def _map(message: Any, name: str, number: int) -> None:
    """``map<string, Value>``, as protobuf has it: repeated entries of a nested type."""
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    _field(entry, "key", 1, _Field.TYPE_STRING)
    _field(entry, "value", 2, _Field.TYPE_MESSAGE).type_name = f".{_PACKAGE}.Value"
    field = _field(message, name, number, _Field.TYPE_MESSAGE, _REPEATED)
    field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"


def _record_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="aialgs/data.proto", package=_PACKAGE, syntax="proto2"
    )
    for _, _, name, kind in TENSORS.values():
        tensor = _message(file, name)
        _field(tensor, "values", 1, kind, _REPEATED)
        _field(tensor, "keys", 2, _Field.TYPE_UINT64, _REPEATED)
        _field(tensor, "shape", 3, _Field.TYPE_UINT64, _REPEATED)
    data = _message(file, "Bytes")
    _field(data, "value", 1, _Field.TYPE_BYTES, _REPEATED)
    _field(data, "content_type", 2, _Field.TYPE_STRING)
    value = _message(file, "Value")
    value.oneof_decl.add(name="value")
    members = [(member, number, name) for member, number, name, _ in TENSORS.values()]
    for member, number, name in [*members, ("bytes", 9, "Bytes")]:
        field = _field(value, member, number, _Field.TYPE_MESSAGE)
        field.type_name = f".{_PACKAGE}.{name}"
        field.oneof_index = 0
    record = _message(file, "Record")
    _map(record, "features", 1)
    _map(record, "label", 2)
    for number, name in enumerate(("uid", "metadata", "configuration"), 3):
        _field(record, name, number, _Field.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Record"))


#: A record, as protobuf makes its classes.
Record: Final[Any] = _record_class()
