"""Whether numbers are finite, at the speed of memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from partway.protocol.formats.batches import Numbers

#: What BLAS adds in one call: a run of numbers out of each quarter of the array, since memory that
#: is read in four places comes sooner. They are fewer than those for which OpenBLAS starts threads
#: (2304 x 4).
_QUARTERS: Final = 4
_RUN: Final = 1024

#: Of the types that BLAS has: numbers times these are their sum.
_ONES: Final[dict[np.dtype[Any], Numbers]] = {
    np.dtype(each): np.ones(_RUN, each) for each in (np.float32, np.float64)
}


def is_finite(numbers: Numbers) -> bool:
    """Whether none of the numbers is NaN or infinite; integers and booleans never are.

    Args:
        numbers: of any shape and type; they are read once, or twice where they are so large that
            their sum is infinite.
    """
    if numbers.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum has in it what is not finite, and is had at once; that of large numbers may be
        # infinite though each of them is not.
        return bool(np.isfinite(_sum(numbers)) or np.isfinite(numbers).all())


def _sum(numbers: Numbers) -> Any:
    ones = _ONES.get(numbers.dtype)
    in_place = numbers.flags.c_contiguous and numbers.flags.aligned  # BLAS is given no other
    if ones is None or not in_place or numbers.size < _QUARTERS * _RUN:
        return numbers.sum()
    flat = numbers.reshape(-1)
    whole = flat.size - flat.size % (_QUARTERS * _RUN)
    runs = flat[:whole].reshape(_QUARTERS, -1, _RUN).transpose(1, 0, 2)
    return (runs @ ones).sum() + flat[whole:].sum()
