"""Platforms that are broken in one place.

:data:`~tests.gateway.conformance.platform.broken.catalogue.BROKEN` has them all.
"""
