"""OpenAI's HTTP API, as far as a gateway reads it: the model of a request, and events."""
