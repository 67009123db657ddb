"""A gateway inside an aiohttp application.

::

    from aiohttp import web

    import partway.aiohttp

    app = web.Application()
    settings = partway.aiohttp.load_settings(endpoints=["echo=http://127.0.0.1:8080"])
    partway.aiohttp.setup(app, settings, prefix="/models")
    web.run_app(app)
"""

from __future__ import annotations

from partway.gateway.aiohttp_app.application_settings import ApplicationSettings, load_settings
from partway.gateway.aiohttp_app.mount import PrefixError
from partway.gateway.aiohttp_app.setup import AlreadySetUp, ApplicationFrozen, setup
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.storage.data_directory import DataDirectoryError

__all__ = [
    "AlreadySetUp",
    "ApplicationFrozen",
    "ApplicationSettings",
    "DataDirectoryError",
    "PrefixError",
    "SettingsError",
    "load_settings",
    "setup",
]
