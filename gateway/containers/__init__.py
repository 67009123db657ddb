"""Requests of containers: one exchange of HTTP/1.1 on a connection, and the connections kept."""
