"""Loading of an application by name, and conversion to ASGI."""

from __future__ import annotations

import importlib
import inspect
from functools import reduce
from typing import Any, cast

from partway.container.hosting.asgi_messages import App


def load_app(name: str) -> App:
    """Import an application, ASGI or WSGI; a WSGI one is converted to ASGI.

    The import may take long and runs the app's own code: call this on a thread.

    Args:
        name: ``module:attribute``; the attribute may have dots.

    Raises:
        ValueError: the name is not of the form ``module:attribute``.
        ImportError: there is no module of that name, or something that it imports is missing.
        AttributeError: the module has no such attribute.
        TypeError: the named object is not an application.
        Exception: whatever the module raises.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ValueError(f"{name!r} was given; an application must be named as module:attribute")
    try:
        module = importlib.import_module(module_name)
    except SystemExit as error:
        raise RuntimeError(f"{module_name} called sys.exit({error.code}) at its import") from error
    app: Any = reduce(getattr, path.split("."), module)
    if _is_asgi(name, app):
        return cast("App", app)
    try:
        from partway.container.hosting.asgi_wsgi import WsgiApp
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
    return WsgiApp(app)


def missing_extra(error: ModuleNotFoundError) -> ImportError:
    """Make the error that names the missing package of the extra."""
    return ImportError(
        f"serving an application needs {error.name}: pip install 'partway[asgi]'", name=error.name
    )


def _is_asgi(name: str, app: Any) -> bool:
    """Whether an app is ASGI; otherwise it is WSGI.

    ASGI apps are coroutine functions, or objects that are called like one. Middleware may be a
    plain function that returns the coroutine; then the arguments decide.
    """
    if not callable(app):
        raise TypeError(
            f"{name} must be an ASGI or WSGI application, not of type {type(app).__name__}"
        )
    if inspect.iscoroutinefunction(app):
        return True
    if not inspect.isclass(app) and inspect.iscoroutinefunction(app.__call__):
        return True
    try:
        signature = inspect.signature(app)
    except ValueError:  # it is written in C, as WSGI apps may be
        return False
    if _takes(signature, 2):
        return False
    if _takes(signature, 3):
        return True
    raise TypeError(
        f"{name} must take (scope, receive, send) or (environ, start_response); "
        "a factory cannot be served; name the app that it returns"
    )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
