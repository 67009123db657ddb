"""Online prediction: bodies of instances and of predictions."""
