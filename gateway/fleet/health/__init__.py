"""Health checks: pings of instances, and conclusions from the answers."""
