"""AWS Signature Version 4: to verify and to sign."""
