"""Requests to containers: exchanges of HTTP/1.1, and the connections kept for them."""
