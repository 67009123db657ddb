"""CloudWatch Logs: what instances have printed."""
