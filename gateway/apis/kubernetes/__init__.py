"""The part of Kubernetes' API that lets kubectl make endpoints."""
