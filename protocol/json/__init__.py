"""Untrusted JSON: strict parsing, splitting and splicing."""
