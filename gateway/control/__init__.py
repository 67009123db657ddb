"""The control plane: models, endpoint configurations and endpoints, by SageMaker's API."""
