"""Every limit that the fleet alone has, named, with its unit and its precedent.

Those an operator may change are defaults: ``partway.gateway.settings.settings`` starts from
them. Sizes are bytes, times are seconds. What the rest of the gateway has is in
:mod:`partway.gateway.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

# --- Instances -----------------------------------------------------------------------------------

#: A container that is not ready this long after its start has failed to launch (clause 1.1-3:
#: eight minutes).
START_TIMEOUT: Final = 480.0

#: From SIGTERM to SIGKILL (clause 1.1-1).
STOP_GRACE: Final = 30.0

#: From SIGKILL to the process's end, which takes milliseconds, unless the system refuses the signal
#: (a setuid program that has become another user's) or the process hangs in a system call. Docker
#: waits 10 s for it.
KILL_TIMEOUT: Final = 5.0

#: For an answer to ``/ping`` (clause 1.1-2).
PING_TIMEOUT: Final = 2.0

#: A container that starts is pinged again after this share of the time that its start has taken so
#: far, so that readiness is seen at most that much late; but neither more nor less often than this.
#: One that takes the whole eight minutes gets about 150 pings.
STARTUP_PING_SHARE: Final = 0.1
STARTUP_PING_SHORTEST: Final = 0.05
STARTUP_PING_LONGEST: Final = 5.0

#: An instance that is not ready after this long is looked at: where does its program listen? Most
#: programs are ready before.
SLOW_START_LOOK_AFTER: Final = 3.0

#: Seconds from one such look to the next. A look reads the system's tables of sockets and of
#: processes, which takes milliseconds.
SLOW_START_LOOK_INTERVAL: Final = 5.0

#: An instance that is not ready after this long is told of with the reason, where a command or an
#: API shows how an endpoint comes up. The first look is over by then.
SLOW_START_TOLD_AFTER: Final = 4.0

#: An instance that is not ready after this long leaves a WARNING, and one a minute from then on.
#: In the eight minutes of clause 1.1-3 those are eight lines.
SLOW_START_WARNING_AFTER: Final = 10.0
SLOW_START_WARNING_INTERVAL: Final = 60.0

#: Endpoints that are pinged at a time when the gateway starts.
PINGS_AT_ONCE: Final = 16

#: Between two pings of an instance in service (Kubernetes ``periodSeconds``: 10 s), and how many
#: in a row without 200 take it out of rotation (Kubernetes ``failureThreshold``: 3).
HEALTH_PING_INTERVAL: Final = 10.0
HEALTH_PINGS_MISSED: Final = 3

#: The same of containers that are written for Vertex AI, as its page on custom containers says:
#: 200 within 10 s, and the fourth check in a row without it ends the traffic.
VERTEX_PING_TIMEOUT: Final = 10.0
VERTEX_PINGS_MISSED: Final = 4

#: Pings at a time, of instances that start and of those in service: each has a file descriptor, and
#: many are due at one moment. A thousand of one endpoint that all hang are asked within as much
#: time as one interval.
HEALTH_PINGS_AT_ONCE: Final = 256

#: Of these an endpoint has at most so many times as many as there is room left for. Where the
#: instances of one endpoint hang, 51 are left to the others, whose pings wait for none of its. Of
#: several that begin to hang one after the other the first has too much for as long as its first
#: pings last; then two leave about 28, and ten about 6.
HEALTH_PINGS_PER_ROOM_LEFT: Final = 4

#: Of those that are due at one moment so many are begun in a turn of the loop, which takes about a
#: tenth of a millisecond; else a thousand endpoints would hold everybody's requests up. Their
#: answers come when they come.
HEALTH_PINGS_PER_TURN: Final = 2

#: Pings that cannot be made, since no file descriptor is left, are told of so often at most.
UNPINGED_LINE_INTERVAL: Final = 60.0

#: For what is open on an instance that is to stop, to end by itself (an AWS load balancer's
#: deregistration delay: 300 s; a stream lives 1,800 at most, clause 1.4-5).
INSTANCE_DRAIN_TIMEOUT: Final = 300.0

#: Then what is still open is told to end, and has so long for its last bytes.
CUT_TIMEOUT: Final = 5.0

#: An instance that a connection has just failed with is pinged at once, unless its last ping is not
#: as old as this: whoever can make connections fail is not to make pings.
EXTRA_PING_AFTER: Final = 1.0

#: The first wait before an instance is started in the place of one that failed, and the longest;
#: each is twice the one before (Kubernetes ``CrashLoopBackOff``: 10 s to 5 min).
RESTART_SHORTEST: Final = 0.5
RESTART_LONGEST: Final = 60.0

#: Starts in a row that do not bring an instance into service, after which no more are tried: the
#: waits between them are five minutes in all.
STARTS_IN_VAIN: Final = 12

#: So many are enough of a change that somebody waits for, where none of the instances was ever in
#: service, of containers that end by themselves and of those that are not ready in time. What never
#: worked is wrong, as a rule: the waits between the first are half a minute in all, time for what
#: it needs to come up; the platform fails an endpoint after eight minutes (clause 1.1-3), and
#: boto3's waiter gives up after an hour.
ENDS_IN_VAIN: Final = 7
TIMEOUTS_IN_VAIN: Final = 2

#: And of those that no engine is there for at all, neither Docker nor Podman: time for one that is
#: just being started anew.
ENGINES_IN_VAIN: Final = 4

#: An instance that has been in service for so long has proved itself: if it fails then, the waits
#: begin anew.
PROVEN_AFTER: Final = 60.0

#: Session ids whose instance is remembered, of one endpoint; one principal has half of them.
STICKY_SESSIONS: Final = 65_536

#: Instances of one variant, of which none is far to choose; a variant's instances on the platform
#: number 20 at first.
MAX_INSTANCES: Final = 1000

#: Containers of all instances of all variants of an endpoint that one call of the API has made:
#: each is a program of this machine.
MAX_ENDPOINT_CONTAINERS: Final = 1000

#: Containers of all endpoints and transform jobs, unless the settings say otherwise: two of the
#: largest endpoints, or one that is changed beside what serves (Kubernetes: 110 pods of a node;
#: AWS: 20 instances of all endpoints, unless more are asked for).
MAX_LAUNCHED_CONTAINERS: Final = 2 * MAX_ENDPOINT_CONTAINERS

#: Variants of one endpoint (``ProductionVariants`` of AWS's service model: 10).
MAX_VARIANTS: Final = 10

#: Containers of one instance (AWS: 15).
MAX_CONTAINERS: Final = 15

#: GPUs of one instance (the platform's largest have 16).
MAX_GPUS: Final = 64

#: For the list of this machine's GPUs: ``nvidia-smi`` takes seconds where the driver is not kept
#: loaded.
GPU_LIST_TIMEOUT: Final = 15.0

#: For the leash's shell to end, which looks at all processes twice at most: each look takes
#: milliseconds, on a busy machine with thousands of processes more.
LEASH_TIMEOUT: Final = 3.0

# --- What instances print ------------------------------------------------------------------------

#: Lines of what an instance has printed last that are told with its failure.
LAST_LINES: Final = 20

#: Characters of each of them.
LAST_LINE_CHARACTERS: Final = 500

#: What is kept of an instance's output for them.
LAST_OUTPUT_BYTES: Final = 32 * KIB

#: An instance's log in the data directory, from which on a new one is begun; the one before is kept
#: (the kubelet's ``containerLogMaxSize``: 10 MiB, of which it keeps five).
OUTPUT_FILE_BYTES: Final = 5 * MIB

#: The times beside a log, 16 bytes for each write: with so many the log is renamed too, though it
#: may be smaller. Lines of 80 bytes and more, each written by itself, fill the log first.
OUTPUT_TIMES_BYTES: Final = 1 * MIB

#: Instances whose logs are kept after their end, those that wrote last.
OUTPUTS_KEPT: Final = 50

#: What is printed is written together so much later, or as soon as so much of one instance waits.
OUTPUT_FLUSH_INTERVAL: Final = 0.1
OUTPUT_FLUSH_BYTES: Final = 64 * KIB

#: Of an instance's output so much waits for the disk; what comes beyond that is left out.
OUTPUT_WAITING_BYTES: Final = 512 * KIB

#: What an instance may print at once, less than may wait for the disk, and in each second from then
#: on: ten thousand lines. One that prints more waits for its output to be taken (journald takes
#: 10,000 lines in 30 s, and drops the rest).
OUTPUT_BURST: Final = 256 * KIB
OUTPUT_RATE: Final = 1 * MIB

#: When the gateway stops, the last of all output is waited for by this time.
OUTPUT_CLOSE_TIMEOUT: Final = 5.0

#: From a container's end until all that it has printed is read, should something that has left its
#: process group hold its output open.
LAST_OUTPUT_TIMEOUT: Final = 1.0

#: The longest line of a log that is passed on in one piece (journald's ``LineMax``: 48 KiB).
MAX_LOG_LINE: Final = 64 * KIB

# --- A container engine --------------------------------------------------------------------------

#: For an answer of the engine, to whatever has one at once (docker-py's default).
ENGINE_TIMEOUT: Final = 60.0

#: What is asked of the engine at a time; pulls and what lasts as long as a container come on top.
ENGINE_REQUESTS: Final = 16

#: An answer of the engine that is read whole: a list of 2,000 containers.
MAX_ENGINE_ANSWER: Final = 4 * MIB

#: For an image to be pulled, and for its pull to say anything new (Kubernetes gave the latter a
#: minute, ``image-pull-progress-deadline``; Podman says little while it unpacks a layer).
PULL_TIMEOUT: Final = 1800.0
PULL_SILENCE: Final = 300.0

#: The first wait before an engine that went away is asked again, and the longest; each is twice
#: the one before.
ENGINE_RETRY_SHORTEST: Final = 0.1
ENGINE_RETRY_LONGEST: Final = 5.0

#: How often an engine is asked to remove a container that it refuses to remove: over four minutes.
ENGINE_REMOVAL_TRIES: Final = 50

#: A gateway that stops waits so long for the next of its containers to be removed: longer than the
#: longest wait before the engine is asked again.
ENGINE_REMOVAL_TIMEOUT: Final = 10.0

#: For the removal of what a gateway that was killed has left to its engine, when the next starts;
#: and for the endpoints to be found, and to come up, before that, which may take containers over.
#: One that takes longer, as its model is fetched anew, starts anew too.
LEFTOVERS_TIMEOUT: Final = 300.0

#: For the engine to tell what those containers use, before model data that nobody does is removed.
LEFTOVERS_LOOK_TIMEOUT: Final = 10.0

#: What the engine keeps of a container's output, in files of so many bytes.
ENGINE_LOG_BYTES: Final = 8 * MIB
ENGINE_LOG_FILES: Final = 2

#: Processes and threads of one container: Podman has 2,048 for each, OpenShift 4,096, which a
#: program with a few pools of a thread a core comes near on the largest machines. It keeps one that
#: forks without end from taking all that the machine has.
ENGINE_PROCESSES: Final = 8192

#: One entry of that output, which comes in pieces beyond it: Docker's have 16 KiB and a time.
ENGINE_LOG_ENTRY: Final = 64 * KIB
