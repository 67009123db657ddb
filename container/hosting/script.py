"""Serving a classic inference script: ``model_fn``, ``input_fn``, ``predict_fn``, ``output_fn``.

The functions and their defaults are those of ``sagemaker-inference-toolkit`` 1.10; what differs is
said where it does.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from partway.container.errors import ModelError
from partway.container.model import Model, Reply, Request

_JSON = "application/json"
_CSV = "text/csv"
_NPY = "application/x-npy"
_ANY = "*/*"

#: Bodies of these types reach ``input_fn`` as text.
_TEXT = frozenset({_JSON, _CSV})

#: The functions that a script may have, and what each is called with. One that takes one argument
#: more gets a :class:`Context` too.
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
    """What a script's functions get that take one argument more; it knows nothing of a request.

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
        environ: the environment; ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`` in it is the type of
            answers to clients that ask for no type.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._path = path.resolve()
        self._default_accept = environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT") or _JSON
        self._functions: dict[str, Callable[..., Any]] = {}
        self._loaded: object = None

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
        self._functions = {"input_fn": decode, "output_fn": self._encode, **own}

    async def invoke(self, request: Request) -> Reply:
        """Answer a request; both ways of writing a script come to the same."""
        body = await request.read()
        accept = request.headers.get("Accept", "").strip()
        if not accept or accept == _ANY:
            accept = self._default_accept
        content, content_type = await self.workers.run(
            self.transform, body, request.content_type, accept
        )
        return Reply(content, content_type)

    def transform(self, body: bytes, content_type: str, accept: str) -> tuple[bytes, str]:
        """Run a request through the script's functions.

        Args:
            body: the request's body.
            content_type: the type of the body.
            accept: the types that the client takes.

        Returns:
            The answer's body and type.
        """
        received = _text(body) if _media_type(content_type) in _TEXT else body
        call = self._functions
        if "transform_fn" in call:
            result = call["transform_fn"](self._loaded, received, content_type, accept)
        else:
            data = call["input_fn"](received, content_type)
            prediction = call["predict_fn"](data, self._loaded)
            result = call["output_fn"](prediction, accept)
        if isinstance(result, tuple) and len(result) == 2:
            content, answered_type = result
        else:
            content, answered_type = result, _accepted(accept, self._default_accept)[0]
        if isinstance(content, str):
            return content.encode(), answered_type
        if isinstance(content, bytes | bytearray):
            return bytes(content), answered_type
        return _to_json(content), answered_type

    def _encode(self, prediction: object, accept: str) -> tuple[bytes, str]:
        return encode(prediction, _accepted(accept, self._default_accept))


# --- The script ----------------------------------------------------------------------------------


def _imported(path: Path) -> ModuleType:
    """Import a file as the module of its name; the modules beside it can be imported too."""
    name = path.stem
    if name in sys.modules:
        # What is loaded would be lost, and pickles look for their classes by this name.
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
        raise TypeError(f"{path} has transform_fn, which leaves nothing to {', '.join(stages)}")


def _callable(name: str, function: Callable[..., Any], context: Context) -> Callable[..., Any]:
    """A function that is called without context, whether it takes one or not.

    As in the toolkit, one parameter more than the function needs is the context's.
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
    """The default ``predict_fn``: a call, as the toolkit has it for PyTorch, or ``predict``."""
    if callable(model):
        return lambda data, _: model(data)
    predict = getattr(model, "predict", None)
    if predict is None:
        raise TypeError(
            f"model_fn gave a {type(model).__name__}, which can neither be called nor predict: "
            "define predict_fn(data, model)"
        )
    return lambda data, _: predict(data)


# --- Arrays --------------------------------------------------------------------------------------


def decode(body: str | bytes, content_type: str) -> Any:
    """The default ``input_fn``: JSON, CSV or NPY as an array.

    Pickled objects in NPY, which the toolkit takes, are refused: whoever sends one runs code here.

    Raises:
        ModelError: 415, the type is another one; 400, the body is not what its type says.
    """
    decoder = _DECODERS.get(_media_type(content_type))
    if decoder is None:
        # A reason is logged, and what clients send is not.
        raise ModelError(f"the body's type must be one of {', '.join(_DECODERS)}", status=415)
    try:
        return decoder(body)
    except (ValueError, MemoryError, RecursionError) as error:
        raise ModelError(
            f"the body is not {_media_type(content_type)}, as its type says", status=400
        ) from error


def encode(prediction: object, accepted: list[str]) -> tuple[bytes, str]:
    """The default ``output_fn``: JSON, CSV or NPY, whichever is accepted first.

    Raises:
        ModelError: 406, another type is accepted only.
    """
    for media_type in accepted:
        if media_type in _ENCODERS:
            return _ENCODERS[media_type](prediction), media_type
    raise ModelError(f"Accept must allow one of {', '.join(_ENCODERS)}", status=406)


def _from_csv(text: str) -> Any:
    if not text.strip():
        raise ValueError("the body is empty")  # numpy would only warn
    return np.genfromtxt(io.StringIO(text), dtype=None, delimiter=",", encoding=None)


def _from_npy(body: bytes) -> Any:
    array = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    if array.size > len(body):
        raise ValueError(
            "the array's elements have no size"
        )  # any number of which fits a few bytes
    return array


def _to_json(value: object) -> bytes:
    def as_list(item: Any) -> object:
        if hasattr(item, "tolist"):  # arrays, and tensors
            return item.tolist()
        raise TypeError(f"a {type(item).__name__} has no form in JSON")

    return json.dumps(value, default=as_list).encode()


def _to_csv(value: Any) -> bytes:
    text = io.StringIO()
    np.savetxt(text, value, delimiter=",", fmt="%s")
    return text.getvalue().encode()


def _to_npy(value: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, value, allow_pickle=False)
    return content.getvalue()


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    _JSON: lambda text: np.array(json.loads(text)),
    _CSV: _from_csv,
    _NPY: _from_npy,
}
_ENCODERS: Mapping[str, Callable[[Any], bytes]] = {_JSON: _to_json, _CSV: _to_csv, _NPY: _to_npy}


# --- Headers -------------------------------------------------------------------------------------


def _media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def _accepted(accept: str, default: str) -> list[str]:
    """The types of an ``Accept``, in their order: weights count for nothing, as in the toolkit."""
    named = [_media_type(each) for each in accept.split(",")]
    return [default if each == _ANY else each for each in named if each] or [default]


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ModelError("the body is not UTF-8", status=400) from error
