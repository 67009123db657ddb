"""Processes of this machine: their start, their children, their end."""
