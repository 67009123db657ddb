"""Choice of the next tokens. Needs the text extra."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from partway.container.models.text import token_sampler
from partway.container.models.text.settings import Sample
from partway.container.models.text.token_sampler import TokenSampler, arguments

VOCABULARY = 1000
DRAWS = 4000

#: How the sampler draws: as on a CPU, and as on a GPU.
Way = Callable[[torch.Tensor, list[Sample]], torch.Tensor]


@pytest.fixture(params=["_draw_some", "_draw_all"])
def sample(request: pytest.FixtureRequest) -> Way:
    """Returns the scores of which transformers takes the likeliest of each row."""
    torch.manual_seed(1)
    draw = getattr(TokenSampler(), request.param)

    def sampled(scores: torch.Tensor, samples: list[Sample]) -> torch.Tensor:
        asked = [arguments(each) for each in samples]
        values = (torch.tensor([each[name] for each in asked]) for name in ("temperature", "top_p"))
        result: torch.Tensor = draw(scores.clone(), *values)
        return result

    return sampled


def logits(*shares: float) -> torch.Tensor:
    """Logits of a vocabulary whose first tokens have these shares, and the others next to none."""
    return torch.tensor([*shares, *[1e-9] * (VOCABULARY - len(shares))]).log()


def shares_of(sample: Way, scores: torch.Tensor, how: Sample) -> list[float]:
    drawn = sample(scores.expand(DRAWS, -1), [how] * DRAWS).argmax(-1)
    counts = torch.bincount(drawn, minlength=VOCABULARY)
    return [float(count) / DRAWS for count in counts]


def test_a_greedy_row_is_left_alone(sample: Way) -> None:
    scores = torch.randn(3, VOCABULARY)
    result = sample(scores, [Sample(0.0), Sample(1.0), Sample(1e-30, 0.5)])
    assert result[0].equal(scores[0])
    assert result[2].equal(scores[2])
    assert int((result[1] > -math.inf).sum()) == 1


def test_tokens_come_as_often_as_their_share(sample: Way) -> None:
    found = shares_of(sample, logits(0.5, 0.3, 0.2), Sample(1.0))
    assert found[:3] == pytest.approx([0.5, 0.3, 0.2], abs=0.05)


def test_a_temperature_sharpens(sample: Way) -> None:
    found = shares_of(sample, logits(0.6, 0.4), Sample(0.5))
    assert found[0] == pytest.approx(0.36 / (0.36 + 0.16), abs=0.05)


def test_the_nucleus_is_the_smallest_that_has_the_share(sample: Way) -> None:
    found = shares_of(sample, logits(0.1, 0.5, 0.1, 0.3), Sample(1.0, 0.75))
    assert found[1] == pytest.approx(0.5 / 0.8, abs=0.05)
    assert found[1] + found[3] == 1


def test_a_nucleus_larger_than_what_is_looked_at_first(sample: Way) -> None:
    flat = torch.zeros(VOCABULARY)
    found = shares_of(sample, flat, Sample(1.0, 0.5))
    assert token_sampler._CANDIDATES < sum(share > 0 for share in found) <= VOCABULARY // 2 + 1


@pytest.mark.parametrize("how", [Sample(0.0), Sample(1.0), Sample(1.0, 0.5)])
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_row_stays_so_and_harms_no_other(sample: Way, how: Sample, broken: float) -> None:
    scores = torch.randn(3, VOCABULARY)
    scores[1, 7] = broken
    result = sample(scores, [how] * 3)
    tokens = result.argmax(-1, keepdim=True)
    logprobs = result.softmax(-1).gather(1, tokens).log()  # as transformers makes them
    assert logprobs.isnan()[:, 0].tolist() == [False, True, False]
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < VOCABULARY
