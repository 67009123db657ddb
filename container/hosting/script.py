"""Classic inference scripts: ``model_fn``, ``input_fn``, ``predict_fn``, ``output_fn``.

The functions and their defaults are those of ``sagemaker-inference-toolkit`` 1.10. Differences are
noted where they occur.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from partway.container.errors import ModelError
from partway.container.hosting.script_defaults import (
    CSV,
    JSON,
    Decoded,
    decode,
    encode,
    to_json,
)
from partway.container.model import Model, Reply, Request
from partway.container.serving.body import HeldBodies
from partway.protocol.http.content_types import media_type_of
from partway.protocol.prediction.bodies import begins_with_instances

_ANY = "*/*"

#: Bodies of these types reach ``input_fn`` as text.
_TEXT = frozenset({JSON, CSV})

#: The functions that a script may have, with their arguments. A function that takes one more
#: argument gets a :class:`Context` too.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "pre_model_fn": ("model_dir",),
    "model_fn": ("model_dir",),
    "model_warmup_fn": ("model_dir", "model"),
    "input_fn": ("body", "content_type"),
    "predict_fn": ("data", "model"),
    "output_fn": ("prediction", "accept"),
    "transform_fn": ("model", "body", "content_type", "accept"),
}


@dataclass(frozen=True, slots=True)
class Context:
    """The optional last argument of a script's functions; it has nothing of a request.

    Attributes:
        system_properties: ``model_dir``, ``gpu_id`` and ``batch_size``.
    """

    system_properties: Mapping[str, object]


class Script(Model):
    """A script's functions as a model. They are called on a worker thread, one request at a time.

    It takes no streams; a stream is refused with 501.

    Args:
        path: the script's file. :meth:`load` imports it, so ``/ping`` is answered while it
            imports a large library.
        environ: the environment; ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`` in it is the answers'
            type for clients that ask for none.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._path = path.resolve()
        self._default_accept = environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT") or JSON
        self._functions: dict[str, Callable[..., Any]] = {}
        self._loaded: object = None
        self._bodies = HeldBodies()

    def load(self, model_dir: Path) -> None:
        """Import the script and have it load its model.

        Raises:
            TypeError: the script lacks a function, or has one that cannot be called.
        """
        script = _imported(self._path)
        context = Context(
            MappingProxyType({"model_dir": str(model_dir), "gpu_id": 0, "batch_size": 1})
        )
        own = {
            name: _callable(name, function, context)
            for name in _ARGUMENTS
            if (function := getattr(script, name, None)) is not None
        }
        _check(self._path, own.keys())
        if "pre_model_fn" in own:
            own["pre_model_fn"](str(model_dir))
        self._loaded = own["model_fn"](str(model_dir))
        if not {"predict_fn", "transform_fn"} & own.keys():
            own["predict_fn"] = _predicting(self._loaded)
        if "model_warmup_fn" in own:
            own["model_warmup_fn"](str(model_dir), self._loaded)
        self._functions = own

    async def invoke(self, request: Request) -> Reply:
        """Answer a request with ``transform_fn``, or with the three single functions."""
        accept = request.headers.get("Accept", "").strip()
        if not accept or accept == _ANY:
            accept = self._default_accept
        async with self._bodies.whole(request.body) as body:
            content, content_type = await self.workers.run(
                self.transform, body, request.content_type, accept
            )
        return Reply(content, content_type)

    def transform(self, body: bytes, content_type: str, accept: str) -> tuple[bytes, str]:
        """Run a request through the script's functions; return the answer's body and type."""
        media_type = media_type_of(content_type)
        received = _text(body) if media_type in _TEXT else body
        call = self._functions
        if "transform_fn" in call:
            result = call["transform_fn"](self._loaded, received, content_type, accept)
        else:
            if "input_fn" in call:
                asks = media_type == JSON and begins_with_instances(body)
                decoded = Decoded(call["input_fn"](received, content_type), asks)
            else:
                decoded = decode(received, content_type)
            prediction = call["predict_fn"](decoded.data, self._loaded)
            if "output_fn" in call:
                result = call["output_fn"](prediction, accept)
            else:
                result = encode(
                    prediction,
                    _accepted(accept, self._default_accept),
                    as_predictions=decoded.asks_for_predictions,
                )
        if isinstance(result, tuple) and len(result) == 2:
            content, answered_type = result
        else:
            content, answered_type = result, _accepted(accept, self._default_accept)[0]
        if isinstance(content, str):
            return content.encode(), answered_type
        if isinstance(content, bytes | bytearray):
            return bytes(content), answered_type
        return to_json(content), answered_type


# --- The script ----------------------------------------------------------------------------------


def _imported(path: Path) -> ModuleType:
    """Import a file as a module under its own name; modules beside it can be imported too."""
    name = path.stem
    if name in sys.modules:
        # A loaded module of this name would be replaced, and pickles look up classes by it.
        raise TypeError(f"a module {name} is in use already: {path} must have another name")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TypeError(f"{path} must be a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _check(path: Path, functions: Collection[str]) -> None:
    if "model_fn" not in functions:
        raise TypeError(f"{path} must define model_fn(model_dir)")
    stages = [name for name in ("input_fn", "predict_fn", "output_fn") if name in functions]
    if "transform_fn" in functions and stages:
        raise TypeError(
            f"{path} has transform_fn, which replaces {', '.join(stages)}: remove either"
        )


def _callable(name: str, function: Callable[..., Any], context: Context) -> Callable[..., Any]:
    """Return a function that is called without context, whether it takes one or not.

    As in the toolkit, one parameter beyond the needed ones is for the context.
    """
    wanted = _ARGUMENTS[name]
    signature = inspect.signature(function)
    if len(signature.parameters) == len(wanted) + 1:
        return lambda *arguments: function(*arguments, context)
    try:
        signature.bind(*wanted)
    except TypeError:
        raise TypeError(f"{name} must take ({', '.join(wanted)})") from None
    return function


def _predicting(model: object) -> Callable[..., Any]:
    """Return the default ``predict_fn``: a call, as in the toolkit for PyTorch, or ``predict``."""
    if callable(model):
        return lambda data, _: model(data)
    predict = getattr(model, "predict", None)
    if predict is None:
        raise TypeError(
            f"model_fn returned a {type(model).__name__}, which is not callable and has no "
            "predict(): define predict_fn(data, model)"
        )
    return lambda data, _: predict(data)


# --- Headers -------------------------------------------------------------------------------------


def _accepted(accept: str, default: str) -> list[str]:
    """Return the types of an ``Accept`` in order; weights are ignored, as in the toolkit."""
    named = [media_type_of(each) for each in accept.split(",")]
    return [default if each == _ANY else each for each in named if each] or [default]


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ModelError("the body is not UTF-8", status=400) from error
