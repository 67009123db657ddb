"""Which web page may open a stream (clause 3-4): one table, for the function and for the wire."""

from __future__ import annotations

#: Host, Origin, allowed origins, and whether the upgrade passes.
ORIGINS = {
    "no browser": ("gateway.example:1", None, (), True),
    "own address": ("127.0.0.1:8090", "http://127.0.0.1:8090", (), True),
    "own IPv6 address": ("[::1]:8090", "http://[::1]:8090", (), True),
    "own localhost": ("localhost:8090", "http://localhost:8090", (), True),
    "another scheme": ("localhost", "https://localhost", (), False),
    "another scheme, the same port": ("127.0.0.1:8090", "https://127.0.0.1:8090", (), False),
    "case": ("LocalHost:8090", "http://localhost:8090", (), True),
    "another port": ("127.0.0.1:8090", "http://127.0.0.1:3000", (), False),
    "no port": ("127.0.0.1:8090", "http://127.0.0.1", (), False),
    "localhost is no address": ("127.0.0.1:8090", "http://localhost:8090", (), False),
    "foreign": ("127.0.0.1:8090", "https://evil.example", (), False),
    "DNS rebinding": ("evil.example:8090", "http://evil.example:8090", (), False),
    "rebinding, name like an address": (
        "127.0.0.1.evil.example", "http://127.0.0.1.evil.example", (), False
    ),
    "rebinding, name like localhost": (
        "localhost.evil.example", "http://localhost.evil.example", (), False
    ),
    "user part": ("127.0.0.1:8090", "http://127.0.0.1:8090@evil.example", (), False),
    "sandboxed frame": ("127.0.0.1:8090", "null", (), False),
    "file": ("127.0.0.1:8090", "file://", (), False),
    "empty": ("127.0.0.1:8090", "", (), False),
    "no host": ("", "", (), False),
    "not a URL": ("127.0.0.1:8090", "http://[", (), False),
    "allowed": ("g.example", "https://chat.example", ("https://chat.example",), True),
    "not the one allowed": ("g.example", "https://evil.example", ("https://chat.example",), False),
    "allowed on another scheme": (
        "g.example", "http://chat.example", ("https://chat.example",), False
    ),
    "allowed with something behind": (
        "g.example", "https://chat.example.evil", ("https://chat.example",), False
    ),
    "all allowed": ("g.example", "https://evil.example", ("*",), True),
}  # fmt: skip
