"""Tools for authors of containers and clients. Only the gateway's commands import them."""
