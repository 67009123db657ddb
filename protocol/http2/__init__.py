"""HTTP/2 as bytes: frames, and the bounds that a client's frames pass first (RFC 9113)."""
