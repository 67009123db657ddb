"""The model ``kmeans``: the nearest centroid of each record, and its distance.

================ =================================================================================
``model``        ``KMeans``: requests and answers
``centroids``    the file
``nearest``      the computation, on the CPU or through torch on the GPU
================ =================================================================================
"""

from __future__ import annotations

from partway.container.models.kmeans.model import KMeans

__all__ = ["KMeans"]
