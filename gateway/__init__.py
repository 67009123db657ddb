"""The gateway: the platform's side, which clients connect to."""
