"""Ages, as kubectl shows them; the rest of a Table is in test_service.py."""

from __future__ import annotations

import pytest

from partway.gateway.apis.kubernetes.tables import age

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (3 * MINUTE + 7, "3m7s"),
        (10 * MINUTE + 7, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (9 * HOUR, "9h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (9 * DAY, "9d"),
        (729 * DAY, "729d"),
        (2 * YEAR + DAY, "2y1d"),
        (9 * YEAR, "9y"),
    ],
)
def test_two_units_at_most(seconds, shown):
    assert age(seconds) == shown
