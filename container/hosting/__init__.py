"""Hosts what was not written for this runtime, behind the same contract (section 1.1).

``asgi``, and the modules named after it, run an application on uvicorn, which is an extra:
``pip install 'partway[asgi]'``. ``script`` makes a model of a file with ``model_fn``.
"""
