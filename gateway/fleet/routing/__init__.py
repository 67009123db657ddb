"""Routing: the instance that a stream or a request goes to."""
