"""Files of settings: what a key's value must be, and how a file, a variable or a flag is read."""
