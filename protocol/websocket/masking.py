"""Masking of a frame's bytes, compiled where there is a wheel (RFC 6455 §5.3)."""

from __future__ import annotations

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without a compiled wheel
    from websockets.utils import apply_mask

__all__ = ["apply_mask"]
