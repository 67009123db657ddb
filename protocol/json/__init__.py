"""JSON from strangers: read to the letter, cut, and put together."""
