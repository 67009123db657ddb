"""Settings: the tables of files, and flags, and the values made from them."""
