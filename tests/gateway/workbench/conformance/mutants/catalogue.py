"""All mutants, by their names."""

from tests.gateway.workbench.conformance.mutants import (  # noqa: F401 (each lists its own)
    closing,
    closing_codes,
    control,
    endings,
    frames,
    heads,
    http,
    leaks,
    lengths,
    life,
    messages,
    openai,
    sizes,
    text,
    upgrades,
    violations,
    wear,
)
from tests.gateway.workbench.conformance.mutants.registry import MUTANTS

__all__ = ["MUTANTS"]
