"""Places that hold files: folders of this machine, and buckets at ``s3://``."""
