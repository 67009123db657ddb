"""Containers that keep the contract, each on another library; each says again what it hears.

Every one is a program that takes ``serve`` and listens where ``SAGEMAKER_BIND_TO_PORT`` says.
"""
