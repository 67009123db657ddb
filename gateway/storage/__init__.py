"""Files on disk and at ``s3://``: places, archives, model data, and the store of records."""
