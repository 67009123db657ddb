"""The principals file: who may call the gateway; it is read again whenever it changes.

::

    [[principals]]
    name = "chat-backend"             # in logs and errors
    actions = ["sagemaker:InvokeEndpoint"]                    # default: sagemaker:InvokeEndpoint*
    resources = ["arn:aws:sagemaker:*:*:endpoint/chat-*"]     # default: *
    tokens = ["…"]                    # bearer tokens (clause 3-5), 16 characters up

    [[principals.keys]]                                       # SigV4 (clause 2.4)
    access_key_id = "AKIA…"
    secret_access_key = "…"
    session_token = "…"                                       # of temporary keys only
    expires = 2026-12-01T00:00:00Z                            # default: never

Each request may cause a look at the file, but at most one a second. If the file is missing or
invalid, this is logged, and the principals read before stay. If it is empty, and still is a second
later, no principal is left. Replace the file as a whole (write another, rename it), so that a
half-written file is never read.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from partway.gateway.access.authentication import AuthenticatorError
from partway.gateway.access.policies import (
    EVERYTHING,
    INVOKING,
    Policy,
    is_action,
    is_resource,
)
from partway.gateway.configuration.expected import Moment, array, text
from partway.gateway.configuration.messages import Place, SettingsError
from partway.gateway.configuration.reader import read_toml
from partway.gateway.limits import (
    MAX_KEYS_PER_PRINCIPAL,
    MAX_PATTERNS_PER_PRINCIPAL,
    MAX_PRINCIPALS,
    MAX_PRINCIPALS_BYTES,
    MIN_TOKEN_CHARACTERS,
    PRINCIPALS_CHECK_INTERVAL,
)
from partway.gateway.storage.files import others_may
from partway.log_lines import LogLine
from partway.protocol.signatures.verification import Credentials

log = logging.getLogger("partway.principals")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@:/+=,-]{0,127}")
#: Characters that fit into a Credential (clause 2.4-3).
_ACCESS_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.=-]{1,128}")
#: RFC 6750 §2.1: characters that an Authorization header can carry.
_TOKEN: Final = re.compile(rf"(?=.{{{MIN_TOKEN_CHARACTERS}}})[A-Za-z0-9._~+/-]+=*")

# --- The file ------------------------------------------------------------------------------------

_ALL_OF_THEM: Final = f"an array of 1 to {MAX_PATTERNS_PER_PRINCIPAL} patterns"
_Actions = Annotated[
    tuple[
        Annotated[
            str,
            text(
                "* for all, or a service and its action with * and ? for wildcards, such as "
                "sagemaker:InvokeEndpoint*",
                is_action,
            ),
        ],
        ...,
    ],
    array(f"{_ALL_OF_THEM}; leave the key out for {INVOKING[0]}", 1, MAX_PATTERNS_PER_PRINCIPAL),
]
_Resources = Annotated[
    tuple[
        Annotated[
            str,
            text(
                "* for all, or an ARN of six parts and at most 512 characters, SageMaker's in "
                "lower case, with * and ? for wildcards, such as "
                "arn:aws:sagemaker:*:*:endpoint/chat-*",
                is_resource,
            ),
        ],
        ...,
    ],
    array(f"{_ALL_OF_THEM}; leave the key out for *", 1, MAX_PATTERNS_PER_PRINCIPAL),
]
_Token = Annotated[
    str,
    text(
        f"{MIN_TOKEN_CHARACTERS} or more of A-Z a-z 0-9 . _ ~ + / - and = at the end; "
        "openssl rand -hex 32 makes one",
        _TOKEN.fullmatch,
    ),
]
_Secret = Annotated[str, text("a string that is not empty", len)]


@dataclass(frozen=True, slots=True, repr=False)
class _KeyTable:
    access_key_id: Annotated[
        str, text("1 to 128 letters, digits and _ . = -", _ACCESS_KEY_ID.fullmatch)
    ]
    secret_access_key: _Secret
    session_token: _Secret | None = None
    expires: Moment | None = None


@dataclass(frozen=True, slots=True, repr=False)
class _PrincipalTable:
    name: Annotated[
        str,
        text(
            "1 to 128 letters, digits, spaces and . _ @ : / + = , - with a letter or digit first",
            _NAME.fullmatch,
        ),
    ]
    actions: _Actions = INVOKING
    resources: _Resources = EVERYTHING
    tokens: Annotated[tuple[_Token, ...], array("an array of strings")] = ()
    keys: Annotated[
        tuple[_KeyTable, ...],
        array(
            f"at most {MAX_KEYS_PER_PRINCIPAL} tables, each under [[principals.keys]]",
            most=MAX_KEYS_PER_PRINCIPAL,
            stop=False,
        ),
    ] = ()


@dataclass(frozen=True, slots=True, repr=False)
class _File:
    principals: Annotated[
        tuple[_PrincipalTable, ...],
        array(
            f"1 to {MAX_PRINCIPALS} tables, each under [[principals]]",
            least=1,
            most=MAX_PRINCIPALS,
            stop=False,
        ),
    ]


# --- Principals ----------------------------------------------------------------------------------


class PrincipalsError(AuthenticatorError):
    """The principals file cannot be used; the message says why, and reveals no secret."""


class _Empty(PrincipalsError):
    """The file has no principals: it was emptied, or is being written."""


@dataclass(frozen=True, slots=True)
class Key:
    """One access key.

    Attributes:
        expires: epoch seconds; None for never.
    """

    credentials: Credentials
    expires: float | None = None

    def expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal that may call the gateway.

    Attributes:
        name: used in logs and errors.
    """

    name: str
    policy: Policy
    keys: tuple[Key, ...] = field(default=(), repr=False)

    def secrets(self, now: float) -> list[str]:
        """Return the secrets of its keys that have not expired."""
        return [key.credentials.secret_access_key for key in self.keys if not key.expired(now)]

    def has_secret(self, secret: str) -> bool:
        """Say whether it has a key with a secret, expired or not."""
        return any(key.credentials.secret_access_key == secret for key in self.keys)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The content of one version of the file."""

    by_name: dict[str, Principal]
    by_access_key: dict[str, tuple[Principal, Key]]
    #: By the tokens' hashes, so that the time of a lookup reveals nothing about a token.
    by_token: dict[bytes, Principal]


class Principals:
    """The principals of a file.

    Args:
        clock: epoch seconds.

    Raises:
        PrincipalsError: the file cannot be used.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._identity = _identity(path)
        self._loaded = _load(path)
        self._found_empty = False
        self._looked_at = clock()

    def __len__(self) -> int:
        return len(self._current().by_name)

    def by_access_key(self, access_key_id: str) -> tuple[Principal, Key] | None:
        return self._current().by_access_key.get(access_key_id)

    def by_token(self, token: str) -> Principal | None:
        return self._current().by_token.get(_token_hash(token))

    def by_name(self, name: str) -> Principal | None:
        return self._current().by_name.get(name)

    def may(self, name: str, action: str, resource: str) -> bool:
        """Say whether a principal may perform an action now; an unknown principal may nothing."""
        principal = self._current().by_name.get(name)
        return principal is not None and principal.policy.allows(action, resource)

    def may_somewhere(self, name: str, action: str) -> bool:
        """Say whether a principal may perform an action now, on any resource at all."""
        principal = self._current().by_name.get(name)
        return principal is not None and principal.policy.allows_somewhere(action)

    def _current(self) -> _Loaded:
        now = self._clock()
        # If the clock was set back, look at once.
        if not 0 <= now - self._looked_at < PRINCIPALS_CHECK_INTERVAL:
            self._look(now)
        return self._loaded

    def _look(self, now: float) -> None:
        self._looked_at = now
        identity = _identity(self._path)
        if identity != self._identity:
            self._identity = identity
            self._reload()

    def _reload(self) -> None:
        found_empty, self._found_empty = self._found_empty, False
        try:
            self._loaded = _load(self._path)
        except _Empty:
            self._found_empty = True
            if found_empty:
                self._loaded = _Loaded({}, {}, {})
                log.warning(
                    LogLine(
                        "the principals file is empty: every request is refused",
                        file=str(self._path),
                    )
                )
            else:
                self._identity = None  # look again: it may be being written
        except PrincipalsError as error:
            faults = str(error).replace("\n", "; ")
            stay = "the principals were not reloaded, the earlier ones stay"
            log.error(LogLine(stay, reason=faults))  # noqa: TRY400 no traceback
        else:
            count = len(self._loaded.by_name)
            log.info(LogLine("principals reloaded", file=str(self._path), principals=count))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def _load(path: Path) -> _Loaded:
    """Read the file; no message repeats its content.

    Raises:
        PrincipalsError: it cannot be used.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise PrincipalsError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise PrincipalsError(
            f"{path}: it must be a regular file, since the gateway reads it again"
        )
    if mode & stat.S_IWOTH:
        raise PrincipalsError(
            f"{path}: anybody on this machine can write to this file (mode "
            f"{stat.S_IMODE(mode):04o}), and so add a key; let only its owner do so: chmod 600"
        )
    fault = PrincipalsError
    try:
        document = read_toml(path, MAX_PRINCIPALS_BYTES, secret=True)
        if document.members in ({}, {"principals": []}):
            fault = _Empty
        tables = document.as_table(_File).principals
        principals = tuple(map(_principal, tables))
        loaded = _Loaded({}, {}, {})
        document.refuse(_add_all(loaded, tables, principals))
    except SettingsError as error:
        raise fault(str(error)) from None
    if verb := others_may(mode):
        log.warning(
            LogLine(f"users other than its owner can {verb} secrets: chmod 600", file=str(path))
        )
    return loaded


def _principal(table: _PrincipalTable) -> Principal:
    keys = (
        Key(
            Credentials(each.access_key_id, each.secret_access_key, each.session_token),
            None if each.expires is None else each.expires.timestamp(),
        )
        for each in table.keys
    )
    return Principal(table.name, Policy(table.actions, table.resources), tuple(keys))


def _add_all(
    loaded: _Loaded, tables: tuple[_PrincipalTable, ...], principals: tuple[Principal, ...]
) -> Iterator[tuple[Place, str]]:
    """Add principals; yield place and text of each fault, such as a name that is there twice."""
    for number, (table, principal) in enumerate(zip(tables, principals, strict=True)):
        place = ("principals", number)
        if not table.keys and not table.tokens:
            yield place, "this principal has no keys and no tokens; it must have at least one"
        if principal.name in loaded.by_name:
            fault = f"{principal.name!r} is another principal's name too; each must have its own"
            yield (*place, "name"), fault
        loaded.by_name[principal.name] = principal
        for at, key in enumerate(principal.keys):
            access_key_id = key.credentials.access_key_id
            if access_key_id in loaded.by_access_key:
                owner, _ = loaded.by_access_key[access_key_id]
                yield (*place, "keys", at, "access_key_id"), _twice(owner)
            loaded.by_access_key[access_key_id] = (principal, key)
        for at, token in enumerate(table.tokens):
            digest = _token_hash(token)
            if digest in loaded.by_token:
                yield (*place, "tokens", at), _twice(loaded.by_token[digest])
            loaded.by_token[digest] = principal


def _twice(owner: Principal) -> str:
    return f"principal {owner.name!r} has the same one; remove one of the two"


def _token_hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
