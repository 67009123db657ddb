"""AWS's event stream encoding, and the events of the bidirectional operation (clause 2.3)."""
