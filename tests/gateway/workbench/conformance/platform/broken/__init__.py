"""Platforms that are broken in one place.

:data:`~tests.gateway.workbench.conformance.platform.broken.catalogue.BROKEN` has them all.
"""
