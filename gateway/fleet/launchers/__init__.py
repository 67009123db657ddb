"""How a container comes to run, and to its end."""
