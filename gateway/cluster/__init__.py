"""The Kubernetes API as a client: requests, lists and watches."""
