"""The schema of protobuf records, ``aialgs.data`` (proto2), built at run time.

It has its own pool, because SageMaker's SDK registers the same names in the default one.
"""

from __future__ import annotations

from typing import Any, Final

from partway.protocol.protobuf_schema import MessageMember, message_classes

_PACKAGE: Final = "aialgs.data"
_VALUES: Final = f"map {_PACKAGE}.Value"

#: A tensor's member in ``Value``, by the type of its numbers: name, number, the tensor's message,
#: and the type's name in that message.
TENSORS: Final = {
    "float32": ("float32_tensor", 2, "Float32Tensor", "float"),
    "float64": ("float64_tensor", 3, "Float64Tensor", "double"),
    "int32": ("int32_tensor", 7, "Int32Tensor", "int32"),
}

_TABLES: Final = {
    **{
        name: (
            MessageMember("values", 1, f"repeated {kind}"),
            MessageMember("keys", 2, "repeated uint64"),
            MessageMember("shape", 3, "repeated uint64"),
        )
        for _, _, name, kind in TENSORS.values()
    },
    "Bytes": (
        MessageMember("value", 1, "repeated bytes"),
        MessageMember("content_type", 2, "string"),
    ),
    "Value": tuple(
        MessageMember(member, number, f"{_PACKAGE}.{name}", "value")
        for member, number, name in (
            *(each[:3] for each in TENSORS.values()),
            ("bytes", 9, "Bytes"),
        )
    ),
    "Record": (
        MessageMember("features", 1, _VALUES),
        MessageMember("label", 2, _VALUES),
        MessageMember("uid", 3, "string"),
        MessageMember("metadata", 4, "string"),
        MessageMember("configuration", 5, "string"),
    ),
}

#: The class of a record, made by protobuf.
Record: Final[Any] = message_classes(_PACKAGE, _TABLES, syntax="proto2")["Record"]
