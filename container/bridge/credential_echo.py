"""Whether an upstream's text shows the credential that the bridge has sent it.

Pages for debugging list a request's headers. A search for the exact value would miss a page that is
cut or that escapes a character, so a few characters in a row are enough.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import Final
from urllib.parse import quote

#: Characters in a row that count as a part of a credential; a shorter one counts as a whole.
SHOWN_CHARACTERS: Final = 8


def shows_credential(text: bytes, authorization: str) -> bool:
    """Whether a text has a part of a credential: as sent, percent-encoded, or in base64.

    Args:
        authorization: the value of the header, of ASCII; empty for none.
    """
    return any(_has_part(text, form) for form in _forms(authorization))


def _forms(authorization: str) -> set[bytes]:
    """Return the spellings of a credential; its scheme, such as Bearer, is no secret."""
    scheme, _, rest = authorization.partition(" ")
    secret = rest.strip() or scheme
    plain = secret.encode()
    forms = {plain, quote(secret, safe="").encode()}
    forms.update(base64.b64encode(each).rstrip(b"=") for each in (plain, authorization.encode()))
    with suppress(binascii.Error):
        forms.add(base64.b64decode(plain, validate=True))  # the user and password of Basic
    return forms - {b""}


def _has_part(text: bytes, form: bytes) -> bool:
    size = min(SHOWN_CHARACTERS, len(form))
    return any(form[at : at + size] in text for at in range(len(form) - size + 1))
