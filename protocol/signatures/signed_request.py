"""A request's head as covered by a signature (clause 2.4-2)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from partway.protocol.errors import IncompleteSignature
from partway.protocol.limits import MAX_QUERY_PARAMETERS, REMEMBERED_HEADS

#: HTTP/2 and HTTP/1.1 name the host differently, and a proxy may convert it (clause 2.4-3).
_TWINS: Final = {"host": ":authority", ":authority": "host"}

#: Signed values with at most this many characters are checked each time: are they in canonical form
#: as they stand? The check is as fast as a look-up in the cache.
_SMALL_HEAD: Final = 4096


def to_bytes(text: str) -> bytes:
    """Return a piece of a request as its bytes on the wire."""
    return text.encode("utf-8", "surrogateescape")


class SignableRequest:
    """A request's head as it is on the wire; it never changes.

    Args:
        method: as sent.
        path: raw, still percent-encoded, without the query.
        query: raw, without the question mark; empty after a bare one.
        headers: names and values in wire order, with repeated names; including ``host``,
            ``:authority`` or both.

    Attributes:
        method: as given.
        path: as given.
        query: as given.
        headers: as given.
    """

    __slots__ = ("_several", "_single", "headers", "method", "path", "query")

    def __init__(
        self, method: str, path: str, query: str, headers: tuple[tuple[str, str], ...]
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        #: Headers by lower-case name: those that appear once, and those that appear several times.
        self._single = {name.lower(): value for name, value in headers}
        self._several: dict[str, list[str]] | None = None
        if len(self._single) < len(headers):
            self._part_several(headers)

    def but(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        query: str | None = None,
        headers: tuple[tuple[str, str], ...] | None = None,
    ) -> SignableRequest:
        return SignableRequest(
            self.method if method is None else method,
            self.path if path is None else path,
            self.query if query is None else query,
            self.headers if headers is None else headers,
        )

    # Query and headers are not shown: both may have tokens and signatures.
    def __repr__(self) -> str:
        return f"SignableRequest(method={self.method!r}, path={self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SignableRequest) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.method, self.path, self.query, self.headers

    def _part_several(self, headers: tuple[tuple[str, str], ...]) -> None:
        by_name: dict[str, list[str]] = {}
        for name, value in headers:
            by_name.setdefault(name.lower(), []).append(value)
        self._several = {name: values for name, values in by_name.items() if len(values) > 1}
        for name in self._several:
            del self._single[name]

    @property
    def names(self) -> AbstractSet[str]:
        """The names of the headers, in lower case, without repetition."""
        single = self._single.keys()
        return single if self._several is None else single | self._several.keys()

    def values(self, name: str) -> Sequence[str]:
        """Return the values of the headers with a name, given in lower case."""
        value = self._single.get(name)
        if value is not None:
            return (value,)
        return () if self._several is None else self._several.get(name, ())

    def only(self, name: str) -> str | None:
        """Return the value of the only header with a lower-case name; None if it is absent.

        Raises:
            IncompleteSignature: there are several such headers.
        """
        if self._several is not None and name in self._several:
            raise IncompleteSignature(f"the request has more than one {name} header")
        return self._single.get(name)

    def signed_values(self, name: str) -> Sequence[str]:
        """Return the values that a signed header name stands for (clause 2.4-3)."""
        return self.values(name) or self.values(_TWINS.get(name, name))

    def values_as_they_stand(self, names: tuple[str, ...]) -> list[str] | None:
        """Return the values of these headers, if they can be signed unchanged.

        None if a header is absent under its name or appears several times. None if a value is empty
        or has whitespace to be folded, or if the values are too long to check here.
        """
        try:
            values = [*map(self._single.__getitem__, names)]
        except KeyError:
            return None
        together = " ".join(values)
        if len(together) > _SMALL_HEAD or " ".join(together.split()) != together:
            return None
        return values

    def in_canonical_form(self, signed_headers: tuple[str, ...], payload_hash: str) -> str | None:
        """Return the canonical request of a request with a canonical path and no query.

        None if a signed header is not in canonical form: see :meth:`values_as_they_stand`.
        """
        values = self.values_as_they_stand(signed_headers)
        if values is None:
            return None
        lines = [f"{name}:{value}" for name, value in zip(signed_headers, values, strict=True)]
        signed = ";".join(signed_headers)
        return "\n".join([self.method, self.path, "", *lines, "", signed, payload_hash])

    def parameters(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the query's names and values, percent-decoded, in wire order; ``+`` is a plus.

        Raises:
            IncompleteSignature: the query has too many parameters.
        """
        if self.query.count("&") >= MAX_QUERY_PARAMETERS:
            raise IncompleteSignature(
                f"the query must have at most {MAX_QUERY_PARAMETERS} parameters"
            )
        return _parameters(self.query)


@lru_cache(maxsize=REMEMBERED_HEADS)
def _parameters(query: str) -> tuple[tuple[bytes, bytes], ...]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return tuple(
        (unquote_to_bytes(to_bytes(name)), unquote_to_bytes(to_bytes(value)))
        for name, _, value in pairs
    )
