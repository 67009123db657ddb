"""The wire contract as executable checks: what ``partway conform`` holds a container to."""
