"""Workers: threads or processes that run a model's methods, away from the event loop.

A handler asks :class:`Workers` to run a method. That makes a job, which waits in the
:class:`~partway.container.workers.pool.Pool` until a worker is free. A worker is a thread of this
process that shares the model with other threads, or a process that has loaded its own model.

============================ =====================================================================
``settings``                 an author's settings, ``Threads`` and ``Processes``; ``Loadable``
``workers``                  ``Workers``, which handlers use
``jobs``, ``pool``           a job and its client; the queue and deadlines; all on the loop
``thread_workers``           threads
``process_workers``          processes, one after the other in each place
``child_process``, ``child`` a process from the outside, with the thread that talks to it; inside
``pipe_messages``            messages through the pipe between the two
``job_execution``            doing a job, the same way in threads and processes
============================ =====================================================================
"""

from __future__ import annotations

from partway.container.workers.jobs import Items
from partway.container.workers.pool import JobFigures
from partway.container.workers.settings import Processes, Threads
from partway.container.workers.workers import Workers

__all__ = ["Items", "JobFigures", "Processes", "Threads", "Workers"]
