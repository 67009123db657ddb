"""Streams: each has two legs and the session between them."""
