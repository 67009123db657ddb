"""Benchmarks of the gateway beside its peers. See docs/discussion/benchmarks.md."""
