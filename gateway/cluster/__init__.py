"""The Kubernetes API as a client: it knows neither the fleet nor the APIs of this gateway."""
