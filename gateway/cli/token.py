"""``partway token``: an API key for OpenAI's clients, signed with an access key."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import region
from partway.gateway.client import credentials_from_environment
from partway.protocol.signatures.api_keys import MAX_API_KEY_EXPIRES, make_api_key

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_EXAMPLES: Final = """\
examples:
  export OPENAI_API_KEY=$(partway token)
  partway token --expires 900 --region eu-west-1
"""


def add_to(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "token",
        help=COMMANDS["token"],
        description=(
            "Print an API key for OpenAI's clients. It is signed with AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and stands for their owner. See "
            f"{page('how-to/openai.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--expires",
        type=_lifetime,
        default=MAX_API_KEY_EXPIRES,
        metavar="SECONDS",
        help=f"how long the key is valid, 1 to {MAX_API_KEY_EXPIRES} (%(default)s, 12 hours)",
    )
    parser.add_argument("--region", default=region(), help="the gateway's region (%(default)s)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, or 2 without credentials."""
    try:
        credentials = credentials_from_environment(os.environ)
    except ValueError as error:
        print(f"partway token: {error}", file=sys.stderr)
        return 2
    print(
        make_api_key(credentials, region=options.region, now=time.time(), expires=options.expires)
    )
    return 0


def _lifetime(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 6:
        found = int(text)
        if 1 <= found <= MAX_API_KEY_EXPIRES:
            return found
    raise argparse.ArgumentTypeError(
        f"{text!r} was given; it must be a whole number of seconds from 1 to {MAX_API_KEY_EXPIRES}"
    )
