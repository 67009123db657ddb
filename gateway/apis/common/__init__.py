"""Services that several APIs share."""
