"""The fleet: endpoints, their instances, and how their containers run."""
