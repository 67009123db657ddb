"""Tools for tests of containers and clients, with the pytest plugin or without pytest."""
