"""A gateway inside an aiohttp application that another server serves."""
