"""partway.gateway.batch.execution_parameters: the job, then the container, then the default."""

from __future__ import annotations

import json

import pytest

from partway.gateway.batch.execution_parameters import RequestPlan, settled
from partway.gateway.batch.options import OptionsError, TransformOptions

SAYS = {"MaxConcurrentTransforms": 4, "BatchStrategy": "SINGLE_RECORD", "MaxPayloadInMB": 20}


def plan(said=None, **given):
    return settled(TransformOptions(**given), b"" if said is None else json.dumps(said).encode())


def test_the_default():
    assert plan() == RequestPlan("MultiRecord", 1, 6)
    assert plan().most_bytes == 6 * 2**20
    assert not plan().unlimited


def test_the_container_goes_before_the_default():
    assert plan(SAYS) == RequestPlan("SingleRecord", 4, 20)
    assert plan({"BatchStrategy": "MultiRecord"}) == RequestPlan("MultiRecord", 1, 6)
    assert plan({"MaxConcurrentTransforms": 0, "Another": []}) == RequestPlan("MultiRecord", 1, 6)
    unlimited = plan({"MaxPayloadInMB": 0})
    assert unlimited.unlimited
    assert unlimited.most_bytes == 100 * 2**20


def test_the_job_goes_before_the_container():
    given = {"batch_strategy": "MultiRecord", "max_concurrent": 2, "max_payload_mb": 3}
    assert plan(SAYS, **given) == RequestPlan("MultiRecord", 2, 3)
    assert plan(SAYS, max_payload_mb=0).unlimited
    assert plan(SAYS, max_concurrent=0).concurrent == 4


def test_bodies_and_requests_together_stay_in_their_bound():
    assert plan(SAYS, max_payload_mb=50) == RequestPlan("SingleRecord", 2, 50)
    assert plan(SAYS, max_concurrent=10) == RequestPlan("SingleRecord", 10, 10)
    assert plan(max_concurrent=100) == RequestPlan("MultiRecord", 100, 1)
    assert plan({"MaxConcurrentTransforms": 9999}) == RequestPlan("MultiRecord", 16, 6)


@pytest.mark.parametrize("said", [b"<html>", b"[1]", b"\xff", b'{"a":', b"[" * 20_000])
def test_what_is_no_object_says_nothing(said):
    assert settled(TransformOptions(), said) == RequestPlan("MultiRecord", 1, 6)


@pytest.mark.parametrize(
    ("said", "why", "instead"),
    [
        ({"BatchStrategy": "BOTH"}, "'BOTH'; it must be MULTI_RECORD or SINGLE_RECORD, or the job",
         {"batch_strategy": "MultiRecord"}),
        ({"BatchStrategy": ["\x1b" * 400]}, "['\\x1b", {"batch_strategy": "MultiRecord"}),
        ({"MaxPayloadInMB": "6"}, "'6'; it must be a whole number from 0 to 100",
         {"max_payload_mb": 6}),
        ({"MaxPayloadInMB": 101}, "101; it must be", {"max_payload_mb": 6}),
        ({"MaxConcurrentTransforms": True}, "True; it must be a whole number from 0 to 10000",
         {"max_concurrent": 1}),
        ({"MaxConcurrentTransforms": -1}, "-1; it must be", {"max_concurrent": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named_unless_the_job_says_it(said, why, instead):
    with pytest.raises(OptionsError) as caught:
        plan(said)
    assert str(caught.value).startswith(
        f"{next(iter(said))}: the container's /execution-parameters says {why}"
    )
    assert len(str(caught.value)) < 300
    plan(said, **instead)
