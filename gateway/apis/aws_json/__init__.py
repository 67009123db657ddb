"""AWS's JSON 1.1 protocol, which several APIs use."""
