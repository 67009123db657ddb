"""Discovered endpoints in a Kubernetes cluster: what joins the fleet and the cluster's client."""
