"""AWS Signature Version 4: verifying and signing."""
