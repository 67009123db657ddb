"""Who may call the gateway: the principals file, read again whenever it changes.

::

    [[principals]]
    name = "chat-backend"                                     # in logs and errors
    operations = ["InvokeEndpointWithBidirectionalStream"]    # default: all; * stands for anything
    endpoints = ["echo", "chat-*"]                            # default: all; * stands for anything
    tokens = ["…"]                    # bearer tokens for WebSockets (clause 3-5), 16 characters up

    [[principals.keys]]                                       # SigV4 (clause 2.4)
    access_key_id = "AKIA…"
    secret_access_key = "…"
    session_token = "…"                                       # of temporary keys only
    expires = 2026-12-01T00:00:00Z                            # default: never

The file is looked at when somebody asks, once a second at most. One that cannot be used changes
nothing and is logged: the principals before it stay. Replace the file whole (write another, rename
it), so that nobody reads half of it.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NoReturn

from partway.protocol.limits import (
    MAX_KEYS_PER_PRINCIPAL,
    MAX_PRINCIPALS,
    MAX_PRINCIPALS_BYTES,
    MIN_TOKEN_CHARACTERS,
    PRINCIPALS_CHECK_INTERVAL,
)
from partway.protocol.sigv4 import Credentials

log = logging.getLogger("partway.principals")

_EVERYTHING: Final = ("*",)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@:/+=,-]{0,127}")
_PATTERN: Final = re.compile(r"[A-Za-z0-9*-]{1,128}")
#: What fits into a Credential (clause 2.4-3).
_ACCESS_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.=-]{1,128}")
#: RFC 6750 §2.1: what an Authorization header can carry.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
#: A member's name that an error may repeat: no key looks like it.
_SHOWN: Final = re.compile(r"[a-z_]{1,24}")


class PrincipalsError(ValueError):
    """The principals file cannot be used: where in it, why, and what to do; never a secret."""


@dataclass(frozen=True, slots=True)
class Key:
    """One access key.

    Attributes:
        credentials: with its secret.
        expires: epoch seconds; None for never.
    """

    credentials: Credentials
    expires: float | None = None

    def expired(self, now: float) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may call.

    Attributes:
        name: in logs and errors.
        operations: patterns of what it may call.
        endpoints: patterns of where.
        keys: that it signs with.
    """

    name: str
    operations: tuple[str, ...] = _EVERYTHING
    endpoints: tuple[str, ...] = _EVERYTHING
    keys: tuple[Key, ...] = field(default=(), repr=False)

    def allows(self, operation: str, endpoint: str) -> bool:
        """Whether it may call an operation at an endpoint; an empty name where it has none."""
        return _fits(self.operations, operation) and _fits(self.endpoints, endpoint)

    def secrets(self, now: float) -> list[str]:
        """The secrets of its keys that are good now."""
        return [key.credentials.secret_access_key for key in self.keys if not key.expired(now)]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one version of the file says."""

    by_name: dict[str, Principal]
    by_access_key: dict[str, tuple[Principal, Key]]
    #: By the tokens' hashes: to look one up takes the same time whatever it shares with another.
    by_token: dict[bytes, Principal]


class Principals:
    """The principals of a file.

    Args:
        path: of the file.
        clock: epoch seconds.

    Raises:
        PrincipalsError: the file cannot be used.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._identity = _identity(path)
        self._loaded = _load(path)
        self._looked_at = clock()

    def __len__(self) -> int:
        return len(self._current().by_name)

    def by_access_key(self, access_key_id: str) -> tuple[Principal, Key] | None:
        """Whose key it is, and the key."""
        return self._current().by_access_key.get(access_key_id)

    def by_token(self, token: str) -> Principal | None:
        """Whose bearer token it is."""
        return self._current().by_token.get(_token_hash(token))

    def by_name(self, name: str) -> Principal | None:
        """The principal of that name."""
        return self._current().by_name.get(name)

    def _current(self) -> _Loaded:
        now = self._clock()
        # A clock that was set back is no reason to wait for it.
        if not 0 <= now - self._looked_at < PRINCIPALS_CHECK_INTERVAL:
            self._looked_at = now
            identity = _identity(self._path)
            if identity != self._identity:
                self._identity = identity
                self._reload()
        return self._loaded

    def _reload(self) -> None:
        try:
            self._loaded = _load(self._path)
        except PrincipalsError as error:
            log.error("%s; the principals read before stay", error)  # noqa: TRY400 no traceback
        else:
            log.info("%s: read again, %d principals", self._path, len(self._loaded.by_name))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _load(path: Path) -> _Loaded:
    try:
        return _Reader().read(_members(path))
    except PrincipalsError as error:
        raise PrincipalsError(f"{path}: {error}") from None


def _members(path: Path) -> dict[str, Any]:
    """The file as TOML has it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            _refuse("not a regular file, so it could not be read again")
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_PRINCIPALS_BYTES + 1)
    except OSError as error:
        raise PrincipalsError(f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_PRINCIPALS_BYTES:
        _refuse(f"over {MAX_PRINCIPALS_BYTES} bytes")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("%s: others than its owner can read the secrets in it; chmod 600", path)
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise PrincipalsError("not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # What is wrong may quote what is there; where it is does not.
        place = re.search(r"\(at [a-z0-9, ]+\)$", str(error))
        raise PrincipalsError(f"not TOML {place[0] if place else ''}".rstrip()) from None
    except (RecursionError, ValueError):  # an integer of thousands of digits is a ValueError
        raise PrincipalsError("not TOML: nested too deep, or a number too long") from None


class _Reader:
    """Makes principals of the file's tables, and sees that nothing is there twice."""

    def __init__(self) -> None:
        self._by_name: dict[str, Principal] = {}
        self._by_access_key: dict[str, tuple[Principal, Key]] = {}
        self._by_token: dict[bytes, Principal] = {}

    def read(self, document: dict[str, Any]) -> _Loaded:
        _only(document, "the file", {"principals"})
        tables = _tables(document.get("principals", []), "principals")
        if not tables:
            _refuse("names nobody: add a [[principals]]")
        if len(tables) > MAX_PRINCIPALS:
            _refuse(f"over {MAX_PRINCIPALS} principals")
        for number, table in enumerate(tables, 1):
            self._principal(table, f"principal {number}")
        return _Loaded(self._by_name, self._by_access_key, self._by_token)

    def _principal(self, table: dict[str, Any], where: str) -> None:
        _only(table, where, {"name", "operations", "endpoints", "tokens", "keys"})
        name = _text(table, "name", where)
        if not _NAME.fullmatch(name):
            _refuse(f"{where}: name is up to 128 letters, digits, spaces and ._@:/+=,-")
        if name in self._by_name:
            _refuse(f"{where}: there is another {name!r}; give it another name")
        where = f"principal {name!r}"
        keys = _tables(table.get("keys", []), f"{where}: keys")
        if len(keys) > MAX_KEYS_PER_PRINCIPAL:
            _refuse(f"{where}: over {MAX_KEYS_PER_PRINCIPAL} keys; make it two principals")
        tokens = _texts(table, "tokens", where) if "tokens" in table else ()
        if not keys and not tokens:
            _refuse(f"{where}: neither keys nor tokens, so nobody could be it; add one")
        principal = Principal(
            name,
            _patterns(table, "operations", where),
            _patterns(table, "endpoints", where),
            tuple(_key(key, f"{where}, key {number}") for number, key in enumerate(keys, 1)),
        )
        self._by_name[name] = principal
        for number, key in enumerate(principal.keys, 1):
            self._add_key(principal, key, f"{where}, key {number}")
        for number, token in enumerate(tokens, 1):
            self._add_token(principal, token, f"{where}, token {number}")

    def _add_key(self, principal: Principal, key: Key, where: str) -> None:
        access_key_id = key.credentials.access_key_id
        if access_key_id in self._by_access_key:
            owner = self._by_access_key[access_key_id][0].name
            _refuse(f"{where}: principal {owner!r} has this access_key_id already; remove one")
        self._by_access_key[access_key_id] = (principal, key)

    def _add_token(self, principal: Principal, token: str, where: str) -> None:
        if len(token) < MIN_TOKEN_CHARACTERS or not _TOKEN.fullmatch(token):
            _refuse(
                f"{where}: a token is {MIN_TOKEN_CHARACTERS} or more of A-Z a-z 0-9 . _ ~ + / - "
                "and = at its end; openssl rand -hex 32 makes one"
            )
        digest = _token_hash(token)
        if digest in self._by_token:
            owner = self._by_token[digest].name
            _refuse(f"{where}: principal {owner!r} has this token already; remove one")
        self._by_token[digest] = principal


def _key(table: dict[str, Any], where: str) -> Key:
    _only(table, where, {"access_key_id", "secret_access_key", "session_token", "expires"})
    access_key_id = _text(table, "access_key_id", where)
    if not _ACCESS_KEY_ID.fullmatch(access_key_id):
        _refuse(f"{where}: access_key_id is up to 128 letters, digits and _.=-")
    secret = _text(table, "secret_access_key", where)
    token = _text(table, "session_token", where) if "session_token" in table else None
    expires = table.get("expires")
    if expires is not None and (not isinstance(expires, datetime) or expires.tzinfo is None):
        _refuse(f"{where}: expires is a date and time with its zone, as in 2026-12-01T00:00:00Z")
    return Key(
        Credentials(access_key_id, secret, token),
        None if expires is None else expires.timestamp(),
    )


def _tables(value: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _refuse(f"{where} is a list of tables, each under its [[…]]")
    return value


def _text(table: dict[str, Any], name: str, where: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not value:
        _refuse(f"{where}: {name} is missing, empty or no string")
    return value


def _texts(table: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = table[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _refuse(f"{where}: {name} is a list of strings")
    return tuple(value)


def _patterns(table: dict[str, Any], name: str, where: str) -> tuple[str, ...]:
    if name not in table:
        return _EVERYTHING
    patterns = _texts(table, name, where)
    if not patterns:
        _refuse(f"{where}: {name} is empty; leave it out for all, or name some")
    if not all(map(_PATTERN.fullmatch, patterns)):
        _refuse(f"{where}: {name} are up to 128 letters, digits, hyphens and * for anything")
    return patterns


def _only(table: dict[str, Any], where: str, known: Iterable[str]) -> None:
    for name in table.keys() - set(known):
        shown = repr(name) if _SHOWN.fullmatch(name) else "that cannot be shown"
        _refuse(f"{where}: unknown member {shown}; known: {', '.join(sorted(known))}")


def _refuse(reason: str) -> NoReturn:
    raise PrincipalsError(reason)


def _token_hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _fits(patterns: tuple[str, ...], name: str) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    """Whether a name is a pattern's; each ``*`` stands for anything, nothing included."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    # The earliest place for each piece leaves the most to those after it: no second try is needed.
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
