"""Adapters to engines; each imports its library when it loads."""
