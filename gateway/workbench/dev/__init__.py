"""``partway dev``: a container that restarts when its files change, and a page for it."""
