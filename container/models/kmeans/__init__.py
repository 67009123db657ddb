"""kmeans: the nearest of a file's centroids, and how far it is, for each record of a request.

================ =================================================================================
``model``        ``KMeans``: requests, streams, and what waits for a worker
``centroids``    the file
``formats``      a body's bytes ↔ records and answers: JSON, JSON Lines, CSV
``records``      a record's numbers, dense or sparse, and what may be wrong with them
``nearest``      computing, on the CPU or through torch on the GPU
================ =================================================================================

Another format is one more entry in the two tables of ``formats``; nothing else knows of any.
"""

from __future__ import annotations

from partway.container.models.kmeans.model import KMeans

__all__ = ["KMeans"]
