"""gRPC's services: each call is a route, and does what REST's operation of the same name does."""
