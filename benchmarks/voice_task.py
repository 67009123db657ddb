"""The task of every assistant that is compared: an answer that is spoken within seconds."""

INSTRUCTIONS = "Answer in one short sentence."
MOST_TOKENS = 40
#: The subprotocol of streams whose messages have no envelope.
RAW = "payloadpart.v1.raw"
