"""Online prediction for Google's clients and TF Serving's."""
