"""Workers: several processes that relay for one gateway, each on a core of its own."""
