"""Protobuf message classes, built at run time from tables.

Each schema has its own descriptor pool, because other packages register the same names in the
default pool. Generated code would refuse protobuf runtimes older than itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field: Final = descriptor_pb2.FieldDescriptorProto

_SCALARS: Final[Mapping[str, int]] = {
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "int32": _Field.TYPE_INT32,
    "uint32": _Field.TYPE_UINT32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_NOT_PACKED: Final = frozenset({_Field.TYPE_MESSAGE, _Field.TYPE_BYTES, _Field.TYPE_STRING})


class MessageMember(NamedTuple):
    """A member of a message.

    Attributes:
        type: a scalar type or the full name of a message; ``repeated …`` for a list, ``map …`` for
            a map with string keys.
        oneof: the oneof that it belongs to; empty for none.
    """

    name: str
    number: int
    type: str
    oneof: str = ""


#: Messages by their names.
Tables = Mapping[str, Iterable[MessageMember]]


def message_classes(
    package: str,
    tables: Tables,
    *,
    syntax: str = "proto3",
    imports: Iterable[Any] = (),
) -> dict[str, Any]:
    """Build the classes of a package's messages, by name.

    Repeated numbers are packed in ``proto2`` and ``proto3``. ``imports`` are the descriptors of the
    files whose messages the tables use.
    """
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax=syntax
    )
    for each in imports:
        pool.AddSerializedFile(each.serialized_pb)
        file.dependency.append(each.name)
    for name, members in tables.items():
        message = file.message_type.add(name=name)
        for member in members:
            _add(message, member, f".{package}.{name}")
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in tables
    }


def _add(message: Any, member: MessageMember, full_name: str) -> None:
    kind, _, of = member.type.rpartition(" ")
    if kind == "map":
        # Protobuf's encoding of a map: repeated entries of a nested type.
        entry = message.nested_type.add(name=f"{_camel(member.name)}Entry")
        entry.options.map_entry = True
        _add(entry, MessageMember("key", 1, "string"), full_name)
        _add(entry, MessageMember("value", 2, of), full_name)
        of = f"{full_name[1:]}.{entry.name}"
    field = message.field.add(name=member.name, number=member.number)
    field.label = _Field.LABEL_REPEATED if kind else _Field.LABEL_OPTIONAL
    field.type = _SCALARS.get(of, _Field.TYPE_MESSAGE)
    if field.type == _Field.TYPE_MESSAGE:
        field.type_name = f".{of}"
    if kind and field.type not in _NOT_PACKED:
        field.options.packed = True
    if member.oneof:
        names = [each.name for each in message.oneof_decl]
        if member.oneof not in names:
            message.oneof_decl.add(name=member.oneof)
            names.append(member.oneof)
        field.oneof_index = names.index(member.oneof)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
