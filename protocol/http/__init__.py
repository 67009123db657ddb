"""Rules that every version of HTTP shares."""
