"""Which form of an answer a client accepts: an object as it is, or a Table."""

from __future__ import annotations

from typing import Final, NamedTuple

from partway.gateway.apis.kubernetes.errors import FormNotAcceptable
from partway.gateway.plain_text import cut, safe

_TABLES: Final = ("v1", "v1beta1")
_SHOWN: Final = 128


class AcceptedForm(NamedTuple):
    """What a client gets.

    Attributes:
        table: the version of the Tables that it gets; empty for objects as they are.
    """

    table: str = ""


def accepted_form(accept: str) -> AcceptedForm:
    """The first form of an ``Accept`` header that there is.

    Raises:
        FormNotAcceptable: there is none of them.
    """
    if not accept.strip():
        return AcceptedForm()
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind.lower() not in ("application/json", "application/*", "*/*"):
            continue
        said = dict(part.partition("=")[::2] for part in parameters)
        if "as" not in said:
            return AcceptedForm()
        if (said["as"], said.get("g")) == ("Table", "meta.k8s.io") and said.get("v") in _TABLES:
            return AcceptedForm(said["v"])
    raise FormNotAcceptable(
        f"Accept: {cut(safe(accept), _SHOWN)!r} was given; there are application/json and its "
        "as=Table;v=v1;g=meta.k8s.io"
    )
