"""``partway kubeconfig``: the file by which kubectl finds the gateway."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from partway.documentation import page
from partway.gateway.apis.kubernetes.custom_object import PREFIX
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import add_gateway

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway kubeconfig"

#: The characters of a token in an Authorization header (RFC 6750 §2.1).
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

#: Most bytes of a file of roots; all roots of a system have 230 KB.
_MAX_CA: Final = 4 * 1024 * 1024

_EXAMPLES: Final = """\
examples:
  partway kubeconfig --output kubeconfig
  PARTWAY_TOKEN=… partway kubeconfig --gateway https://localhost:8443 --output kubeconfig
  kubectl --kubeconfig kubeconfig get deployedmodels,endpoints
"""


class _Unusable(Exception):
    """The kubeconfig cannot be written; the message says why."""

    def __init__(self, why: str, status: int = 2) -> None:
        super().__init__(why)
        self.status = status


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "kubeconfig",
        help=COMMANDS["kubeconfig"],
        description=(
            "Print or write a kubeconfig for the gateway. With it, kubectl applies, gets and "
            f"watches DeployedModel and Endpoint objects. See {page('how-to/kubectl.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_gateway(parser)
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="PEM file of roots to trust for https:// (this user's local CA, if there is one)",
    )
    parser.add_argument(
        "--token",
        help="bearer token of a principal; safer in PARTWAY_TOKEN, as others see command lines",
    )
    parser.add_argument(
        "--namespace",
        default="default",
        metavar="NAME",
        help="kubectl's default namespace (%(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write, readable only by its owner (stdout)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 when a file cannot be read or written, 2 on bad usage."""
    try:
        token = options.token or os.environ.get("PARTWAY_TOKEN") or None
        text = kubeconfig(options.gateway, _roots(options), token, options.namespace)
        if options.output is None:
            sys.stdout.write(text)
        else:
            _write(options.output, text)
    except _Unusable as error:
        print(f"{_NAME}: {error}", file=sys.stderr)
        return error.status
    return 0


def kubeconfig(url: str, roots: bytes | None, token: str | None, namespace: str) -> str:
    """Write the file's text, as YAML.

    Args:
        roots: the roots to trust, PEM; None for the system's.
        token: a principal's; None where the gateway does not authenticate.
        namespace: the namespace of commands that name none.

    Raises:
        _Unusable: kubectl could not use the file, or it would have a password.
    """
    if "@" in url:  # the URL is not repeated: terminals are read, and logged
        raise _Unusable(
            "--gateway: the URL has an @, as after a user name and password; it must be "
            "http://HOST:PORT or https://…. The gateway reads neither, and the file would keep "
            "them; set PARTWAY_TOKEN to a token instead"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a wrong port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise _Unusable(f"--gateway: {url!r} was given; it must be http://HOST:PORT or https://…")
    if token is not None and parts.scheme != "https":
        raise _Unusable(
            "--token: kubectl sends a token only over TLS; use an https:// URL for --gateway (see "
            "partway serve --tls-port), or leave the token out"
        )
    if token is not None and not _TOKEN.fullmatch(token):
        raise _Unusable("--token: it must be letters, digits and . _ ~ + / - with = at its end")
    if not _NAMESPACE.fullmatch(namespace):
        raise _Unusable(f"--namespace: {namespace!r} was given; it must be a DNS label (RFC 1123)")
    server = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{PREFIX}"
    trusted = ""
    if roots is not None and parts.scheme == "https":
        trusted = f"\n    certificate-authority-data: {base64.b64encode(roots).decode()}"
    user = " {}" if token is None else f"\n    token: {json.dumps(token)}"
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: partway
  cluster:
    server: {json.dumps(server)}{trusted}
contexts:
- name: partway
  context:
    cluster: partway
    namespace: {json.dumps(namespace)}
    user: partway
current-context: partway
users:
- name: partway
  user:{user}
"""


def _roots(options: argparse.Namespace) -> bytes | None:
    """The roots of ``--ca``, else those of the local CA; None where there is neither."""
    named: Path | None = options.ca
    if named is None:
        if not options.gateway.startswith("https:"):
            return None
        from partway.gateway.tls.local_ca import default_directory

        named = default_directory(os.environ) / "ca.pem"
        if not named.exists():
            return None
    try:
        with named.open("rb") as file:
            roots = file.read(_MAX_CA + 1)
    except OSError as error:
        raise _Unusable(f"--ca: {named}: {error.strerror}", 1) from None
    if len(roots) > _MAX_CA or b"-----BEGIN CERTIFICATE-----" not in roots:
        raise _Unusable(f"--ca: {named} must have certificates in PEM, of 4 MiB at most", 1)
    return roots


def _write(path: Path, text: str) -> None:
    """Write a file, whole and readable by its owner alone."""
    if not path.name:
        raise _Unusable(f"--output: {str(path)!r} was given; it must be a file's path")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):  # it may not have been begun
            beside.unlink()
        raise _Unusable(f"--output: {path}: {error.strerror}", 1) from None
