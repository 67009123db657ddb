"""The Open Inference Protocol, KServe's version 2: tensors in, tensors out.

Requests and responses are read and written here, for every transport. Tensors are also converted,
for containers that take instances and answer predictions.

================== =================================================================================
``tensors``        ``Tensor``: its data as bytes, as JSON, as values
``requests``       a request's body over HTTP, the binary tensor data extension within it
``responses``      a response's body, likewise
``mapping``        tensors as instances, predictions as tensors
``instance_texts`` the text of instances, in blocks
================== =================================================================================
"""

from __future__ import annotations

from typing import Final

#: The header with the length of a body's JSON, when binary data follows.
HEADER_LENGTH: Final = "Inference-Header-Content-Length"
