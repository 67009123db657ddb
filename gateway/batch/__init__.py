"""Batch transform: sends the records of files to a model and stores the answers beside them."""
