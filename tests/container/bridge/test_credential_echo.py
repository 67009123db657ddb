"""Which texts show a credential."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from partway.container.bridge.credential_echo import shows_credential

TOKEN = "a+b/c=d" * 5 + "tail"  # no eight characters in a row are without an escape
AUTHORIZATION = f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        AUTHORIZATION,
        TOKEN[:8],
        TOKEN[-8:],
        f"key=…{TOKEN[10:18]}…",
        quote(TOKEN, safe=""),
        quote(AUTHORIZATION),
        base64.b64encode(TOKEN.encode()).decode(),
        base64.b64encode(AUTHORIZATION.encode()).decode(),
    ],
)
def test_a_part_of_it(text: str) -> None:
    assert shows_credential(f"<p>{text}</p>".encode(), AUTHORIZATION)


@pytest.mark.parametrize("text", ["", "Bearer", f"Bearer {TOKEN[:7]}", "a wrong model", "0" * 2048])
def test_another_text(text: str) -> None:
    assert not shows_credential(text.encode(), AUTHORIZATION)
    assert not shows_credential(text.encode(), "")


@pytest.mark.parametrize(
    ("authorization", "text"),
    [
        ("only-a-key", "your key is only-a-key."),
        ("Token abc", "Token abc"),
        (f"Basic {base64.b64encode(b'user:password').decode()}", "no user:password here"),
        ('Digest username="user", response="6629fae4"', 'response="6629fae4"'),
    ],
)
def test_other_forms_of_the_header(authorization: str, text: str) -> None:
    assert shows_credential(text.encode(), authorization)
