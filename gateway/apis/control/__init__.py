"""SageMaker's control plane: models, endpoint configurations, endpoints and tags."""
