"""``partway certs``: the local CA, and the settings that make clients trust it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import region
from partway.gateway.tls.local_ca import (
    LocalCa,
    aws_names,
    certificate_name,
    default_directory,
    default_names,
)
from partway.gateway.tls.trust import TlsError

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

#: The port for clients with a hard-coded host (clause 2.5-6).
_AWS_PORT = 8443

_EXAMPLES = """\
examples:
  eval "$(partway certs)"
  partway certs --aws-names --region eu-west-1
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "certs",
        help=COMMANDS["certs"],
        description=(
            "Make this user's local CA and the gateway's certificate, or renew it, and print the "
            "lines that make clients trust it. They can be pasted into a shell."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        type=_name,
        metavar="NAME",
        dest="names",
        help="another DNS name or IP address for the certificate; may be repeated",
    )
    parser.add_argument(
        "--aws-names",
        action="store_true",
        help="add SageMaker's own host, for clients whose host cannot be changed",
    )
    parser.add_argument(
        "--region",
        default=region(),
        help="region of SageMaker's host (AWS_REGION, AWS_DEFAULT_REGION, us-east-1)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="folder of the CA (partway/tls in XDG_DATA_HOME, ~/.local/share unless set)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 when files cannot be read or written, 2 on bad usage."""
    try:
        hosts = aws_names(options.region) if options.aws_names else []
    except ValueError as error:
        print(f"partway certs: {error}", file=sys.stderr)
        return 2
    try:
        directory = (options.directory or default_directory(os.environ)).absolute()
        # the path could control the terminal, or end its comment
        if not str(directory).isprintable():
            print(
                f"partway certs: {str(directory)!r} is the CA's directory; "
                "its path must have only printable characters",
                file=sys.stderr,
            )
            return 2
        names = [*default_names(""), *options.names, *hosts]
        LocalCa(directory).ensure(names, datetime.now(UTC))
    except TlsError as error:
        print(f"partway certs: {error}", file=sys.stderr)
        return 1
    for line in lines(directory / "ca.pem", hosts):
        print(line)
    return 0


def lines(ca: Path, hosts: Iterable[str]) -> Iterator[str]:
    """Yield the lines to paste into a shell.

    Each line is a comment or ``export NAME=VALUE``. An interactive zsh reads comments as commands,
    so that they hold no characters special to a shell. Only a path that needs quotes has them.

    Args:
        ca: the file of the local CA's certificate.
        hosts: names that must lead to the gateway.
    """
    path = shlex.quote(str(ca))
    store = shlex.quote(str(ca.with_name("ca.p12")))
    yield f"# {path} is the local CA."
    yield "# It can sign for any host. Keep the key file beside it secret."
    yield ""
    yield "# AWS SDK for Python, and most programs that use OpenSSL."
    yield "# It replaces the roots of the system in such a process: they are not trusted there."
    yield f"export SSL_CERT_FILE={path}"
    yield ""
    yield "# Node.js, AWS SDK for JavaScript: in addition to its own roots."
    yield f"export NODE_EXTRA_CA_CERTS={path}"
    yield ""
    yield "# boto3 and the AWS CLI: in place of their own roots."
    yield f"export AWS_CA_BUNDLE={path}"
    yield ""
    yield "# Java, AWS SDK for Java: make a trust store once, and give its path to each process."
    yield (
        "#   keytool -importcert -noprompt -alias partway -storetype PKCS12 "
        f"-storepass changeit -file {path} -keystore {store}"
    )
    yield (
        f"#   java -Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword=changeit"
    )
    if hosts:
        yield ""
        yield f"# Clients with a hard-coded host, which connect to port {_AWS_PORT}: in /etc/hosts"
        for host in hosts:
            yield f"#   127.0.0.1 {host}"


def _name(text: str) -> str:
    try:
        return certificate_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
