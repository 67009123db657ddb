"""The platform's side: what clients connect to."""
