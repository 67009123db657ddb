"""What a user writes of endpoints: in tables of a file and in flags, and what becomes of it."""
