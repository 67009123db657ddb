"""Every limit that the gateway alone has, named, with its unit and its precedent.

Those an operator may change are defaults: ``partway.gateway.settings`` starts from them. Sizes are
bytes, times are seconds. What both sides of the wire share is in :mod:`partway.protocol.limits`.
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

# --- Processes of containers ---------------------------------------------------------------------

#: A container that is not ready this long after its start has failed to launch (clause 1.1-3:
#: eight minutes).
START_TIMEOUT: Final = 480.0

#: From SIGTERM to SIGKILL (clause 1.1-1).
STOP_GRACE: Final = 30.0

#: For an answer to ``/ping`` (clause 1.1-2).
PING_TIMEOUT: Final = 2.0

#: A container that starts is pinged again after this share of the time that its start has taken so
#: far, so that readiness is seen at most that much late; but neither more nor less often than this.
#: One that takes the whole eight minutes gets about 150 pings.
STARTUP_PING_SHARE: Final = 0.1
STARTUP_PING_SHORTEST: Final = 0.05
STARTUP_PING_LONGEST: Final = 5.0

#: From SIGKILL to the process's end, which takes milliseconds, unless the system refuses the signal
#: (a setuid program that has become another user's) or the process hangs in a system call. Docker
#: waits 10 s for it.
KILL_TIMEOUT: Final = 5.0

#: From a container's end until all that it has printed is read, should something that has left its
#: process group hold its output open.
LAST_OUTPUT_TIMEOUT: Final = 1.0

#: For the leash's shell to end, which has nothing to wait for.
LEASH_TIMEOUT: Final = 1.0
