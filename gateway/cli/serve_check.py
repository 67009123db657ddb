"""``partway serve --check``: validates the files that settings name, and lists what would run."""

from __future__ import annotations

import importlib
import shlex
import time
from collections.abc import Callable, Iterator, Sized
from functools import partial
from pathlib import Path

from partway.gateway.access.principals import Principals, PrincipalsError
from partway.gateway.admin.kept_data import missing_folders
from partway.gateway.apis.manifests import MANIFESTS, NAMES
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Discovered,
    Endpoint,
    Image,
    OneSource,
    Program,
    Variant,
    container_url,
)
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.launchers.program_lookup import find_program
from partway.gateway.settings.settings import Settings
from partway.gateway.settings.top_level import NO_APIS
from partway.gateway.storage.files import is_file_or_folder
from partway.gateway.tls.context import TlsFiles, server_context
from partway.gateway.tls.local_ca import certificate_name
from partway.gateway.tls.trust import TlsError, Trust


def check(loaded: Settings) -> list[str]:
    """Check the files and programs that settings name; nothing is started or asked.

    Args:
        loaded: the settings, each of which is right by itself.

    Returns:
        The lines to show. The first names the APIs that are served, a second one those that are
        not. Each endpoint and each command of ``[images]`` has a line with the program that would
        run. The last line says that all is well.

    Raises:
        SettingsError: files or programs are missing or wrong; a line for each.
    """
    faults = list(_faults(loaded))
    if faults:
        raise SettingsError("\n".join(faults))
    for each in _modules(loaded):  # an upgrade goes on only if all are there
        importlib.import_module(each)
    return [
        *_apis(loaded),
        *(_described(endpoint) for endpoint in loaded.endpoints),
        *(f"image {name}: {_of_source(program)}" for name, program in loaded.images.items()),
        f"all is well: {_number(loaded.endpoints, 'endpoint')}, {_number(loaded.images, 'image')}",
    ]


def _modules(loaded: Settings) -> Iterator[str]:
    """Yield the modules that would be imported."""
    yield from (each.module for each in MANIFESTS if each.name in loaded.apis)
    if loaded.workers > 1:
        yield "partway.gateway.cli.serve_workers"


def _apis(loaded: Settings) -> Iterator[str]:
    """The APIs that would be served, and those that would not, a line for each."""
    off = NAMES - loaded.apis
    yield f"apis: {', '.join(sorted(loaded.apis)) or NO_APIS}"
    if off:
        yield f"apis that are switched off: {', '.join(sorted(off))}"


def _faults(loaded: Settings) -> Iterator[str]:
    certificate, key, principals = loaded.tls_cert, loaded.tls_key, loaded.principals
    if principals is not None:
        yield from _refusals(lambda: Principals(principals, time.time))
    if certificate is not None and key is not None:
        yield from _refusals(lambda: server_context(TlsFiles(certificate, key)))
    if loaded.container_ca is not None:
        yield from _refusals(Trust(loaded.container_ca).context, "container_ca: ")
    for name in sorted(loaded.tls_names):
        yield from _refusals(partial(certificate_name, name), "tls_names: ")
    yield from missing_folders(loaded)
    for endpoint in loaded.endpoints:
        for variant in endpoint.variants:
            where = f"endpoints.{endpoint.name}"
            if not variant.containers:
                yield from _faults_of_variant(variant, f"{where}: ")
            for number, each in enumerate(variant.containers, 1):
                place = f"{where}.containers#{number}: "
                yield from _faults_of_variant(variant.of(each), place)
    for name, program in loaded.images.items():
        if isinstance(program, Program):
            yield from _refusals(
                partial(find_program, program.command, {}, program.cwd), f'images."{name}": '
            )


def _number(things: Sized, name: str) -> str:
    return f"{len(things)} {name}" + ("" if len(things) == 1 else "s")


def _refusals(made: Callable[[], object], where: str = "") -> Iterator[str]:
    """The lines of the error of a call; nothing if the call succeeds."""
    try:
        made()
    except (LaunchError, PrincipalsError, TlsError, ValueError) as error:
        yield from (where + line for line in str(error).splitlines())


def _faults_of_variant(variant: Variant, where: str) -> Iterator[str]:
    source, data = variant.source, variant.model_data
    if isinstance(source, Program):
        environment = dict(variant.environment)
        yield from _refusals(lambda: find_program(source.command, environment, source.cwd), where)
    if data is not None and "://" not in data and not is_file_or_folder(Path(data)):
        yield f"{where.removesuffix(': ')}.model_data: {data}: there is no such file or folder"


# --- The programs that would run ------------------------------------------------------------------


def _described(endpoint: Endpoint) -> str:
    """Describe an endpoint in a line, without its environments."""
    if len(endpoint.variants) == 1:
        return f"{endpoint.name}: {_of_variant(endpoint.variants[0])}"
    variants = (
        f"{each.name} (weight {each.weight:g}): {_of_variant(each)}" for each in endpoint.variants
    )
    return f"{endpoint.name}: {'; '.join(variants)}"


def _of_variant(variant: Variant) -> str:
    source = variant.source
    count = "1 instance" if variant.instances == 1 else f"{variant.instances} instances"
    match source:
        case Attached():
            return _of_source(source)
        case Discovered(service=service, port=port):
            where = "" if port is None else f", port {port}"
            return f"the ready pods of the Service {service}{where}"
        case Containers(each=containers, execution=execution):
            each_of_them = (
                f"{each.hostname}: {_of_source(each.source, each.model_data)}"
                for each in containers
            )
            return (
                f"{count} of {len(containers)} containers, {execution}: {', '.join(each_of_them)}"
            )
        case _:
            return f"{count} of {_of_source(source, variant.model_data)}"


def _of_source(source: OneSource, model_data: str | None = None) -> str:
    match source:
        case Attached(addresses=addresses, tls=tls):
            return ", ".join(container_url(each, tls) for each in addresses)
        case Program(command=command, cwd=cwd):
            what = shlex.join(command) + ("" if cwd is None else f", in {cwd}")
        case Image(name=name, pull=pull):
            what = f"the image {name} by a container engine, pull: {pull}"
    return what if model_data is None else f"{what}, with {model_data}"
