"""Every limit that only the gateway uses, named, with its unit and its precedent.

Sizes are bytes, times are seconds. What both sides of the wire use is in
:mod:`partway.protocol.limits`.
"""

from __future__ import annotations

from typing import Final

# --- Bodies of plain requests and responses ------------------------------------------------------

#: A body that is gathered is there whole within this time of being asked for, however it dribbles
#: in (clause 4-6 gives a container 60 s too; 6 MiB then need 0.9 Mbit/s).
REQUEST_BODY_TIMEOUT: Final = 60.0

#: A body that is streamed brings its next byte within this time of being asked for it (nginx
#: ``client_body_timeout``: 60 s).
REQUEST_BODY_PAUSE: Final = 60.0

#: A client makes room for more of a response within this time (nginx ``send_timeout``: 60 s).
RESPONSE_TAKEN_TIMEOUT: Final = 60.0
