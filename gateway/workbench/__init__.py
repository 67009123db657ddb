"""Tools for authors of containers and clients; of the gateway only its commands import them."""
