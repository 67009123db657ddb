"""The checks of the wire contract that ``partway conform`` runs against a container."""
