"""Batch transform: files of records asked of a model, record by record, answers beside them."""
