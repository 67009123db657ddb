from __future__ import annotations

import importlib.util
import sys

from partway.protocol.websocket import masking
from tests.frame_factory import KEY


def test_masking_without_a_compiled_wheel(monkeypatch):
    """The module loads and masks the same where websockets has no compiled part."""
    monkeypatch.setitem(sys.modules, "websockets.speedups", None)
    spec = importlib.util.spec_from_file_location("pure_masking", masking.__file__)
    pure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pure)
    assert pure.apply_mask is not masking.apply_mask
    for data in (b"", b"x", bytes(range(256)) * 4):
        masked = pure.apply_mask(data, KEY)
        assert masked == masking.apply_mask(data, KEY)
        assert masked == bytes(byte ^ KEY[at % 4] for at, byte in enumerate(data))
