"""Workers: where a model computes, away from the event loop.

A handler asks :class:`Workers` to run a method; that makes a job, which waits in the
:class:`~partway.container.workers.pool.Pool` until a worker is free: a thread of this process,
which shares the model with the others, or a process of its own, which has loaded one for itself.

============================ =====================================================================
``settings``                 what an author says, ``Threads`` and ``Processes``; ``Loadable``
``workers``                  ``Workers``: what a handler uses
``jobs``, ``pool``           a job and its client; the queue, deadlines. All on the loop
``thread_workers``           threads
``process_workers``          processes, one after the other in each place
``child_process``, ``child`` one of them from the outside, with the thread that talks to it; inside
``pipe_messages``            what goes through the pipe between those
``job_execution``            doing a job, the same in threads and processes
============================ =====================================================================
"""

from __future__ import annotations

from partway.container.workers.jobs import Items
from partway.container.workers.settings import Processes, Threads
from partway.container.workers.workers import Workers

__all__ = ["Items", "Processes", "Threads", "Workers"]
