"""Online prediction as Google's clients and TF Serving's ask for it."""
