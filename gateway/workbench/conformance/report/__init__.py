"""Reports of a conformance run, for people and for programs."""
