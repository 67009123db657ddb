"""Which names name an application, and of which kind."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import flask
import pytest
import starlette.applications
from fastapi import FastAPI

from partway.container.hosting.asgi_app import load_app
from partway.container.hosting.asgi_wsgi import WsgiApp


async def asgi(scope: Any, receive: Any, send: Any) -> None: ...


def handed_through(scope: Any, receive: Any, send: Any) -> Any:
    return asgi(scope, receive, send)


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    return []


class Asgi:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


async def decorated_asgi(*args: Any) -> None: ...


class DecoratedAsgi:
    async def __call__(self, *args: Any) -> None: ...


class WsgiOfAClass:
    def __init__(self, environ: Any, start_response: Any) -> None: ...


class Wsgi:
    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        return []


def decorated(*args: Any) -> list[bytes]:
    return []


KINDS = {
    "asgi function": (asgi, False),
    "asgi object": (Asgi(), False),
    "asgi partial": (functools.partial(asgi), False),
    "asgi handed through": (handed_through, False),
    "asgi function with any arguments": (decorated_asgi, False),
    "asgi object with any arguments": (DecoratedAsgi(), False),
    "starlette": (starlette.applications.Starlette(), False),
    "fastapi": (FastAPI(), False),
    "wsgi function": (wsgi, True),
    "wsgi object": (Wsgi(), True),
    "wsgi class": (WsgiOfAClass, True),
    "wsgi with any arguments": (decorated, True),
    "flask": (flask.Flask(__name__), True),
}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("some_app")
    monkeypatch.setitem(sys.modules, "some_app", module)
    return module


@pytest.mark.parametrize(("app", "is_wsgi"), KINDS.values(), ids=KINDS)
def test_kinds(module: types.ModuleType, app: object, is_wsgi: bool) -> None:
    module.app = app  # type: ignore[attr-defined]
    found = load_app("some_app:app")
    assert isinstance(found, WsgiApp) is is_wsgi
    assert is_wsgi or found is app


def test_dots(module: types.ModuleType) -> None:
    module.inner = types.SimpleNamespace(app=asgi)  # type: ignore[attr-defined]
    assert load_app("some_app:inner.app") is asgi


def test_no_application(module: types.ModuleType) -> None:
    module.number = 5  # type: ignore[attr-defined]
    module.factory = lambda: asgi  # type: ignore[attr-defined]
    module.kind = Asgi  # type: ignore[attr-defined]
    with pytest.raises(
        TypeError, match="some_app:number must be an ASGI or WSGI application, not of type int"
    ):
        load_app("some_app:number")
    for name in ("some_app:factory", "some_app:kind"):
        with pytest.raises(
            TypeError,
            match=r"must take .* a factory cannot be served; name the app that it returns",
        ):
            load_app(name)


@pytest.mark.parametrize("name", ["", "app", "app:", ":app", "some.app"])
def test_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="must be named as module:attribute"):
        load_app(name)


def test_not_there(module: types.ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load_app("no_such_module:app")
    with pytest.raises(AttributeError, match="'some_app' has no attribute 'app'"):
        load_app("some_app:app")


def test_a_module_that_leaves(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_at_once.py").write_text("import sys; sys.exit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match=r"leaves_at_once called sys.exit\(3\) at its import"):
        load_app("leaves_at_once:app")


def test_wsgi_without_the_extra(module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    module.app = wsgi  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a2wsgi.wsgi", None)
    monkeypatch.delitem(sys.modules, "partway.container.hosting.asgi_wsgi")
    with pytest.raises(ImportError, match=r"needs a2wsgi.*: pip install 'partway\[asgi\]'"):
        load_app("some_app:app")
