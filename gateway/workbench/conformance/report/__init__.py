"""What became of the checks, for eyes and for machines."""
