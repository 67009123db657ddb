"""OpenAI's HTTP API: requests of its clients go to a container's own ``/v1/…`` paths.

AWS routes ``chat/completions`` alone below an endpoint's path; here every path is routed. The
container's status, headers and body pass through unchanged.
"""
