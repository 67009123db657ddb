"""Configuration: typed values from a file, a variable or a flag, and messages about wrong ones."""
