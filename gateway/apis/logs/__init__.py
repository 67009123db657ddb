"""CloudWatch Logs: the output of instances."""
