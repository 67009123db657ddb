"""HTTP/2 for the gateway's clients, on h2 (RFC 9113)."""
