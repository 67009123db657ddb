"""``GET /openapi.json`` and ``GET /docs``: what is answered over HTTP, made from the routes.

================ =================================================================================
``descriptions`` what is said of each operation: its paths, its bodies
``schemas``      the bodies that have a form
``document``     both joined with the routes: who may ask, how errors read
``page``         the document as a page
``operations``   the two routes
================ =================================================================================
"""
