"""``partway dev``: a container that is started again when its files change, and a page for it."""
