"""What was made while the gateway runs, and outlives it."""
