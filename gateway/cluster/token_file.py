"""TokenFile: a bearer token in a file that others renew."""

from __future__ import annotations

from pathlib import Path

from partway.gateway.cluster.answers import ClusterAway
from partway.gateway.cluster.limits import MAX_TOKEN, TOKEN_AGE
from partway.gateway.timing.clock import Clock


class TokenFile:
    """The token of a file, read when it is used.

    The file is in memory where kubelet keeps it, and is small, so it is read in the loop.

    Args:
        path: None to have no token.
    """

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._good_until = 0.0

    def read(self) -> str:
        """Return the token; empty without a file.

        Raises:
            ClusterAway: the file cannot be read, or holds no token.
        """
        if self._path is None:
            return ""
        if not self._token or self._clock.time() >= self._good_until:
            self._token = _token_in(self._path)
            self._good_until = self._clock.time() + TOKEN_AGE
        return self._token

    def has_changed(self, refused: str) -> bool:
        """Read the file again, since a token was refused; say whether it has another token."""
        self._good_until = 0.0
        return self.read() != refused


def _token_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TOKEN + 1)
    except OSError as error:
        raise ClusterAway(f"{path}: the token cannot be read: {error.strerror}") from None
    token = data.strip()
    if not token or len(data) > MAX_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise ClusterAway(
            f"{path}: the file must hold a token: one word of ASCII of at most {MAX_TOKEN} bytes"
        )
    return token.decode("ascii")
