"""Endpoints whose instances another system starts and stops, such as Kubernetes."""
