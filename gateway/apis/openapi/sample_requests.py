"""A request for each operation, as a command for a shell.

``$GATEWAY`` is the gateway's address. Signed requests take AWS's own variables, and ``$TOKEN`` is a
token of the principals' file.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from partway.gateway.apis.openapi.descriptions import EXAMPLES, Description
from partway.gateway.http.routes import Access

_IN_BRACES: Final = re.compile(r"\{(\w+)\}")

#: Joins the words of a command over several lines.
_CONTINUED: Final = " \\\n    "

_SIGNED: Final = (
    "--aws-sigv4 aws:amz:us-east-1:sagemaker",
    '--user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
)
_BEARER: Final = ('--header "Authorization: Bearer $TOKEN"',)


def path_of(each: Description) -> str:
    """The operation's path, with an example in the place of each name in braces."""
    return _IN_BRACES.sub(lambda name: EXAMPLES[name[1]], each.path)


def sample_request(each: Description, access: Access, *, asks: bool) -> str:
    """A command that asks for an operation.

    Args:
        each: the operation.
        access: who may ask for it.
        asks: whether the gateway authenticates its callers.
    """
    sample = each.sample
    if sample.command:
        return sample.command + (" --sign" if asks else "")
    words = [f'curl "$GATEWAY{path_of(each)}"']
    if asks and access is Access.SIGNED_OR_BEARER:
        words += _BEARER
    elif asks and access is Access.SIGNED:
        words += _SIGNED
    words += (
        f"--header {shlex.quote(f'{name}: {value}')}" for name, value in sample.headers.items()
    )
    if sample.body:
        words.append(f"--data-binary {shlex.quote(sample.body)}")
    elif each.method != "get":
        words.append(f"--request {each.method.upper()}")
    return _CONTINUED.join(words)
