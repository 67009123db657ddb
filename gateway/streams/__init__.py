"""One stream: two legs and the session between them."""
