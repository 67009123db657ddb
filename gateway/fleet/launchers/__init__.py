"""Launchers: how containers are started and stopped."""
