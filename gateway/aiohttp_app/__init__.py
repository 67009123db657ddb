"""A gateway inside an aiohttp application that somebody else serves."""
