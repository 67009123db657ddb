"""For tests of containers and of clients: what the pytest plugin offers, and without pytest too."""
