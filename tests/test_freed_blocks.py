"""Memory of bodies: whether the system is asked for it again and again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PAGES = """
import mmap, resource
from partway.freed_blocks import keep_freed_blocks

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

{}
for body in range(60):
    if body == 10:
        before = pages()
    first = b"x" * 600_000
    second = first[1:]
    third = b"y" * 250_000
    del first, second, third
print((pages() - before) / 50)
"""


def pages_of_a_body(begins):
    """How many pages the system is asked for by what a request of 600 kB needs."""
    run = subprocess.run(
        [sys.executable, "-c", _PAGES.format(begins)], capture_output=True, text=True, timeout=60
    )
    assert not run.stderr
    return float(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others hand back what they like")
def test_a_body_is_where_the_one_before_it_was():
    assert pages_of_a_body("") > 100
    assert pages_of_a_body("keep_freed_blocks()") < 10
