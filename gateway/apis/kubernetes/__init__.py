"""The part of Kubernetes' API by which kubectl makes endpoints."""
