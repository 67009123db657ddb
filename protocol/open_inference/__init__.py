"""The Open Inference Protocol, version 2 of KServe's: tensors there, tensors back.

What is sent is read and written here, whatever carries it; and so is what becomes of tensors where
a container takes instances and answers predictions.

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

#: The header that says how many bytes of a body are its JSON, where binary data follow.
HEADER_LENGTH: Final = "Inference-Header-Content-Length"
