"""Connections to servers, and hosts that fall silent."""
