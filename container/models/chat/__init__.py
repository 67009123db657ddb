"""The model ``chat``: conversations on streams, by any server that speaks OpenAI's API."""
