"""The limits that only a container has. Sizes are bytes, times are seconds.

Those it shares with the gateway are in :mod:`protocol.limits`.
"""

from __future__ import annotations

from typing import Final

from protocol.limits import KIB, MIB

#: Received bytes a handler has not taken at which its client stops being read, and the level at
#: which it is read again. The same as for unsent bytes: 256 KiB is 50 ms of a 40 Mbit/s stream.
#: Bound per stream: high-water mark + one frame + one socket read.
RECEIVE_HIGH_WATER: Final = 256 * KIB
RECEIVE_LOW_WATER: Final = 64 * KIB

#: A handler whose input is over says the rest and returns within this time, or it is cancelled:
#: well before the gateway's patience for our Close ends (10 s, clause 1.5-12).
HANDLER_GRACE: Final = 5.0

#: Largest body of a request. The most that InvokeEndpoint carries: 25 MB on AWS's newer pages.
MAX_BODY_BYTES: Final = 25 * MIB

#: Most time spent waiting for a body. /invocations answers within 60 s (clause 1.1-2), so a body
#: that takes longer has no answer in time.
BODY_TIMEOUT: Final = 60.0

#: Connections the kernel holds until they are accepted. A connection is accepted within 250 ms
#: (clause 1.1-2); one that finds asyncio's 100 places taken tries again after a whole second.
ACCEPT_BACKLOG: Final = 1024

#: At the end of a shutdown a cancelled request may clean up for this long.
CANCEL_GRACE: Final = 0.5
