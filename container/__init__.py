"""The model's side: a runtime that an author builds on, and the models that ship with it.

It meets the gateway on the wire only (section 1 of ``docs/reference/contract.md``).
"""
