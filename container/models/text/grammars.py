"""Grammars of answers, compiled by llguidance, if it is installed."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import Any, Final

from partway.container.models.text.output_constraints import Constraint
from partway.container.models.text.request_members import Refused
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.text")

#: Bounds of one grammar. On an idle core a compilation takes 0.2 s and 10 MB at most, and a step of
#: its matcher 10 ms. The largest grammars of real requests, 128 tools of 8 parameters each, fit.
_LIMITS: Final = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 50_000,
    "step_max_items": 20_000,
    "max_lexer_states": 2_000,  # at 1 to 2 KiB each
    "max_grammar_size": 10_000,
    "verbose_errors": False,
}

#: The place of an error in the grammar. Errors leave it out: the client did not write the grammar.
_PLACE: Final = re.compile(r"^at \d+\(\d+\): ")
_MAX_REASON: Final = 80


class Grammars:
    """Compiles the constraints of requests.

    Construct it while the model loads. The constructor takes half a second, during which no other
    Python code runs.

    Args:
        tokenizer: the model's.
        vocabulary: number of the model's logits.
        ends: the tokens that end a reply.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        self._tokens: Any = None
        self._trouble = "this model's tokenizer has no end token, or is none of the fast ones"
        try:
            from llguidance.hf import from_tokenizer
        except ImportError:
            self._trouble = "llguidance is not installed: pip install llguidance"
            return
        if not ends or not getattr(tokenizer, "is_fast", False):
            return
        size = max(vocabulary, len(tokenizer))
        try:
            self._tokens = from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends))
        except Exception as error:  # a model without forms serves all other requests
            self._trouble = f"llguidance cannot read the tokenizer: {type(error).__name__}"
            _log.warning(LogLine(self._trouble), exc_info=error)

    def compiled(self, constraint: Constraint) -> Any:
        """Return a new matcher; it computes, and must be called on a worker.

        Raises:
            Refused: llguidance is not installed, or refuses the grammar.
        """
        if self._tokens is None:
            raise Refused(f"{constraint.member}: {self._trouble}", status=501)
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(**_LIMITS)
        matcher = LLMatcher(self._tokens, constraint.grammar, log_level=0, limits=limits)
        matcher.compute_bitmask()  # the first takes the most time; a step computes the others
        if matcher.is_error():
            reason = _reason(matcher.get_error())
            raise Refused(f"{constraint.member}: cannot be compiled: {reason}")
        return matcher


def _reason(error: str) -> str:
    lines = _PLACE.sub("", error).strip().splitlines() or ["unknown"]
    first = lines[0].removeprefix("failed to compile JSON schema: ")
    return "".join(letter if letter.isprintable() else "?" for letter in first[:_MAX_REASON])
