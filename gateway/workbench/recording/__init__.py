"""Recordings of streams in files: to look at, to replay, to check with."""
