"""The limits that only the fleet has, each with its unit and its precedent.

Limits that an operator may change are defaults: ``partway.gateway.settings.settings`` starts from
them. Sizes are bytes, times are seconds. The gateway's other limits are in
:mod:`partway.gateway.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

# --- Instances -----------------------------------------------------------------------------------

#: A container that is not ready this long after its start has failed to launch (clause 1.1-3:
#: eight minutes).
START_TIMEOUT: Final = 480.0

#: For the address of an instance that is launched elsewhere: an answer of another service, while a
#: caller waits (Kubernetes gives an admission webhook 10 s).
ADDRESS_TIMEOUT: Final = 10.0

#: From SIGTERM to SIGKILL (clause 1.1-1).
STOP_GRACE: Final = 30.0

#: From SIGKILL to the process's end, which usually takes milliseconds. It takes longer if the
#: system refuses the signal (a setuid program under another user) or the process hangs in a system
#: call. Docker waits 10 s for it.
KILL_TIMEOUT: Final = 5.0

#: For an instance that cannot be reached to come back, unless its launcher calls it gone before.
#: Then it is killed and replaced (Kubernetes tolerates an unreachable node for 300 s).
UNREACHABLE_TIMEOUT: Final = 300.0

#: For an answer to ``/ping`` (clause 1.1-2).
PING_TIMEOUT: Final = 2.0

#: A starting container is pinged again after this share of its start time so far. So readiness is
#: seen at most that much late. The other two bound the wait. A start of eight minutes takes about
#: 150 pings.
STARTUP_PING_SHARE: Final = 0.1
STARTUP_PING_SHORTEST: Final = 0.05
STARTUP_PING_LONGEST: Final = 5.0

#: After this time, the gateway looks where the program of an unready instance listens. Most
#: programs are ready before.
SLOW_START_LOOK_AFTER: Final = 3.0

#: Seconds between two such looks. A look reads the system's tables of sockets and processes, which
#: takes milliseconds.
SLOW_START_LOOK_INTERVAL: Final = 5.0

#: After this time, commands and APIs that show an endpoint's start report an unready instance with
#: the reason. The first look is over by then.
SLOW_START_TOLD_AFTER: Final = 4.0

#: After this time, an unready instance is logged as a WARNING, and then once a minute. In the eight
#: minutes of clause 1.1-3 those are eight lines.
SLOW_START_WARNING_AFTER: Final = 10.0
SLOW_START_WARNING_INTERVAL: Final = 60.0

#: Endpoints that are pinged at a time when the gateway starts.
PINGS_AT_ONCE: Final = 16

#: The interval between pings of an instance in service (Kubernetes ``periodSeconds``: 10 s), and
#: the misses in a row that take it out of rotation (Kubernetes ``failureThreshold``: 3).
HEALTH_PING_INTERVAL: Final = 10.0
HEALTH_PINGS_MISSED: Final = 3

#: The same limits for containers written for Vertex AI, from its page on custom containers. The
#: answer must be 200 within 10 s, and the fourth failed check in a row ends the traffic.
VERTEX_PING_TIMEOUT: Final = 10.0
VERTEX_PINGS_MISSED: Final = 4

#: Pings at a time, of starting instances and of those in service: each holds a file descriptor, and
#: many are due at one moment. A thousand hanging instances of one endpoint are asked within about
#: one interval.
HEALTH_PINGS_AT_ONCE: Final = 256

#: An endpoint may have this many times as many pings under way as there is room left. If one
#: endpoint's instances hang, 51 pings remain for the others. Of several endpoints that begin to
#: hang in turn, the first has too many until its first pings end. Then two leave about 28, and ten
#: about 6.
HEALTH_PINGS_PER_ROOM_LEFT: Final = 4

#: Pings that begin in one turn of the loop, which takes about 0.1 ms. More would let the pings of a
#: thousand endpoints delay all requests.
HEALTH_PINGS_PER_TURN: Final = 2

#: At most one log line in this time says that pings fail for want of file descriptors.
UNPINGED_LINE_INTERVAL: Final = 60.0

#: For open work on a stopping instance to end by itself (an AWS load balancer's deregistration
#: delay: 300 s). A stream lives at most 1,800 s (clause 1.4-5).
INSTANCE_DRAIN_TIMEOUT: Final = 300.0

#: After that, open streams are told to end, and have this long for their last bytes.
CUT_TIMEOUT: Final = 5.0

#: A failed connection causes a ping at once, unless the last ping is younger than this. So a client
#: that makes connections fail cannot cause pings at will.
EXTRA_PING_AFTER: Final = 1.0

#: Further instances that a stream or a request tries if one takes no connection. Several pods may
#: end at the same moment, such as seven of eight, or be on one host that is cut off. A silent
#: address takes ``connect_timeout``, so eight take 2 s by default. Over https, one that accepts and
#: ends no TLS handshake takes CONTAINER_TLS_TIMEOUT more: 42 s for eight. The whole has no limit of
#: its own, since a client waits longer for one container (CONTAINER_HANDSHAKE_TIMEOUT).
MAX_MOVES: Final = 7

#: The first and the longest wait before a failed instance is replaced; each wait is twice the one
#: before (Kubernetes ``CrashLoopBackOff``: 10 s to 5 min).
RESTART_SHORTEST: Final = 0.5
RESTART_LONGEST: Final = 60.0

#: Failed starts in a row after which no more are tried; the waits between them are five minutes in
#: all.
STARTS_IN_VAIN: Final = 12

#: The same limit while a caller waits for a change and no instance ever served: for containers that
#: end by themselves, and for those that are not ready in time. Something that never worked is
#: usually wrong. The waits between the first are half a minute in all, enough for a dependency to
#: come up. The platform fails an endpoint after eight minutes (clause 1.1-3), and boto3's waiter
#: after an hour.
ENDS_IN_VAIN: Final = 7
TIMEOUTS_IN_VAIN: Final = 2

#: The same limit where there is no engine at all, neither Docker nor Podman: an engine may just be
#: restarting.
ENGINES_IN_VAIN: Final = 4

#: If an instance fails after this time in service, the waits begin anew.
PROVEN_AFTER: Final = 60.0


#: Instances of one variant. Choosing among so many is still cheap. The platform's quota is 20 at
#: first.
MAX_INSTANCES: Final = 1000

#: Containers of all instances of an endpoint that one API call creates: each is a program of this
#: machine.
MAX_ENDPOINT_CONTAINERS: Final = 1000

#: Containers of all endpoints and transform jobs by default. This is enough for two of the largest
#: endpoints, or for one and its change (Kubernetes: 110 pods of a node; AWS: 20 instances of all
#: endpoints by default).
MAX_LAUNCHED_CONTAINERS: Final = 2 * MAX_ENDPOINT_CONTAINERS

#: Variants of one endpoint (``ProductionVariants`` of AWS's service model: 10).
MAX_VARIANTS: Final = 10

#: Containers of one instance (AWS: 15).
MAX_CONTAINERS: Final = 15

#: GPUs of one instance (the platform's largest have 16).
MAX_GPUS: Final = 64

#: For the list of this machine's GPUs: ``nvidia-smi`` takes seconds if the driver is not loaded.
GPU_LIST_TIMEOUT: Final = 15.0

#: For the leash's shell to end. It looks at all processes at most twice; each look takes
#: milliseconds, more on a busy machine with thousands of processes.
LEASH_TIMEOUT: Final = 3.0

# --- Output of instances -------------------------------------------------------------------------

#: Last lines of an instance's output that are reported with its failure.
LAST_LINES: Final = 20

#: Characters of each of these lines.
LAST_LINE_CHARACTERS: Final = 500

#: Bytes of output kept for these lines.
LAST_OUTPUT_BYTES: Final = 32 * KIB

#: The size at which an instance's log is replaced by a new one; one old log is kept (the kubelet's
#: ``containerLogMaxSize``: 10 MiB, and five logs).
OUTPUT_FILE_BYTES: Final = 5 * MIB

#: The size of the times beside a log, 16 bytes for each write, at which the log is also replaced.
#: Lines of 80 bytes or more, each written by itself, fill the log first.
OUTPUT_TIMES_BYTES: Final = 1 * MIB

#: How many ended instances keep their logs: those that wrote last.
OUTPUTS_KEPT: Final = 50

#: Output is written after this time, or as soon as so many bytes of one instance wait.
OUTPUT_FLUSH_INTERVAL: Final = 0.1
OUTPUT_FLUSH_BYTES: Final = 64 * KIB

#: Output of an instance that may wait for the disk; more is left out.
OUTPUT_WAITING_BYTES: Final = 512 * KIB

#: Output that an instance may write at once, and per second after that: ten thousand lines. A
#: faster instance has to wait. The burst is less than may wait for the disk. (journald takes 10,000
#: lines in 30 s, and drops the rest.)
OUTPUT_BURST: Final = 256 * KIB
OUTPUT_RATE: Final = 1 * MIB

#: For the last output to reach the disk when the gateway stops.
OUTPUT_CLOSE_TIMEOUT: Final = 5.0

#: From a container's end until its output is read completely, if a process outside its group still
#: holds the output open.
LAST_OUTPUT_TIMEOUT: Final = 1.0

#: The longest line of a log that is passed on in one piece (journald's ``LineMax``: 48 KiB).
MAX_LOG_LINE: Final = 64 * KIB

# --- A container engine --------------------------------------------------------------------------

#: For an answer that the engine gives at once (docker-py's default).
ENGINE_TIMEOUT: Final = 60.0

#: Requests to the engine at a time, besides pulls and requests that last as long as a container.
ENGINE_REQUESTS: Final = 16

#: The largest answer of the engine that is read whole: a list of 2,000 containers.
MAX_ENGINE_ANSWER: Final = 4 * MIB

#: For a pull, and for a pull's next sign of progress (Kubernetes' ``image-pull-progress-deadline``:
#: one minute). Podman says little while it unpacks a layer.
PULL_TIMEOUT: Final = 1800.0
PULL_SILENCE: Final = 300.0

#: The first and the longest wait before a lost engine is asked again; each wait is twice the one
#: before.
ENGINE_RETRY_SHORTEST: Final = 0.1
ENGINE_RETRY_LONGEST: Final = 5.0

#: Attempts to remove a container that the engine refuses to remove: over four minutes.
ENGINE_REMOVAL_TRIES: Final = 50

#: For the next container to be removed while the gateway stops: longer than the longest wait before
#: the engine is asked again.
ENGINE_REMOVAL_TIMEOUT: Final = 10.0

#: For the removal of a killed gateway's containers at the next start. Before that, the same time
#: applies to finding the endpoints, and to their start, since they may take containers over. An
#: endpoint that takes longer, because its model is fetched anew, starts new containers.
LEFTOVERS_TIMEOUT: Final = 300.0

#: For the engine to say which model data a killed gateway's containers use; the rest is removed.
LEFTOVERS_LOOK_TIMEOUT: Final = 10.0

#: A container's output that the engine keeps: bytes of each file, and files.
ENGINE_LOG_BYTES: Final = 8 * MIB
ENGINE_LOG_FILES: Final = 2

#: Processes and threads of one container. It stops a program that forks without end. Podman allows
#: 2,048, OpenShift 4,096; a program with pools of one thread per core comes near that on the
#: largest machines.
ENGINE_PROCESSES: Final = 8192

#: The largest entry of a container's output that is handled whole (Docker's have 16 KiB and a
#: time).
ENGINE_LOG_ENTRY: Final = 64 * KIB
