"""The APIs of a gateway, a folder each: its manifest is always there, the rest if it is served."""
