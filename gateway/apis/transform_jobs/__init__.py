"""SageMaker's transform jobs."""
