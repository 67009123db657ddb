"""Output of instances: captured, kept in files, and read again."""
