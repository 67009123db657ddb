"""The gateway beside its peers, in one run. How to read it: docs/discussion/benchmarks.md."""
