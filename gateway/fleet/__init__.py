"""Which endpoints there are, and where their containers run."""
