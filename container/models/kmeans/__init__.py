"""kmeans: the nearest of a file's centroids, and how far it is, for each record of a request.

================ =================================================================================
``model``        ``KMeans``: what it takes and how it answers
``centroids``    the file
``nearest``      computing, on the CPU or through torch on the GPU
================ =================================================================================
"""

from __future__ import annotations

from partway.container.models.kmeans.model import KMeans

__all__ = ["KMeans"]
