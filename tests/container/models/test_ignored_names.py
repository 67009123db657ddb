"""The log of names without an effect: what it has of a client's names, and how much."""

from __future__ import annotations

import logging

from partway.container.models.ignored_names import MOST_NAMES, IgnoredNames, log_ignored

log = logging.getLogger("partway.container.test")


def test_each_name_once(caplog) -> None:
    caplog.set_level(logging.INFO)
    ignored = IgnoredNames(log, "a member has no effect")
    ignored.note(["b", "a", "b"])
    ignored.note(["c", "a"])
    assert caplog.messages == [f"a member has no effect member={name}" for name in "abc"]


def test_the_number_of_names_is_bounded(caplog) -> None:
    caplog.set_level(logging.INFO)
    ignored = IgnoredNames(log, "a member has no effect")
    for number in range(2 * MOST_NAMES):
        ignored.note([str(number)])
    assert len(caplog.messages) == MOST_NAMES


def test_the_names_of_one_request(caplog) -> None:
    caplog.set_level(logging.INFO)
    log_ignored(log, "members are ignored", "v1/speak", ())
    log_ignored(log, "members are ignored", "v1/speak", ["a", "b"])
    log_ignored(log, "members are ignored", "v1/speak", ["n" * 300])
    assert caplog.messages == [
        'members are ignored path=v1/speak names="a, b"',
        f"members are ignored path=v1/speak names={'n' * 200}",
    ]
