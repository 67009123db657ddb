"""Checks of locations in requests: on S3, or on this machine where the operator allows it."""

from __future__ import annotations

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import SCHEME, is_local, plain_path, split_url
from partway.gateway.storage.places.place import StorageFailed


def checked_place(
    name: str, location: str, roots: LocalRoots, cannot: str, otherwise: str = ""
) -> tuple[str, str] | None:
    """Return the bucket and the key of a location; None if it is on this machine.

    No file is looked at.

    Args:
        name: the member that names the location.
        roots: the folders that may hold it on this machine.
        cannot: the words for the refused action, for the message.
        otherwise: the words for what is allowed beside S3, for the message.

    Raises:
        ValidationException: the location cannot be used; the message says why.
    """
    if is_local(location):
        if not roots.allow(location):
            raise ValidationException(
                f"The {name} {location!r} is a path of the gateway's machine; it must be below one "
                f"of the {roots.setting} under [api] in the gateway's settings."
            )
        try:
            plain_path(location.removesuffix("/"))
        except ValueError as error:
            raise ValidationException(f"The {name} cannot be {cannot}: {error}.") from None
        return None
    if not location.startswith(SCHEME):
        raise ValidationException(
            f"The {name} {location!r} cannot be {cannot}; it must be s3://BUCKET/PREFIX{otherwise}."
        )
    try:
        return split_url(location)
    except StorageFailed as error:
        raise ValidationException(f"The {name} cannot be {cannot}: {error}.") from None
