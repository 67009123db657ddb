"""Paths of OpenAI's API at the gateway."""

from __future__ import annotations

import re
from typing import Final

_REST: Final = r"/openai/v1(?:/(?P<rest>.*))?"

#: The endpoint's name is in the path. Clause 2.1-4 holds here too: a base path may stand in front.
OF_ENDPOINT: Final = re.compile(
    r"(?:/.*?)??/endpoints/(?P<endpoint>[^/]+)"
    rf"(?:/inference-components/(?P<component>[^/]+))?{_REST}"
)
#: The endpoint's name is the request's model.
OF_MODEL: Final = re.compile(_REST)
MODELS: Final = re.compile(r"/openai/v1/models")
ONE_MODEL: Final = re.compile(r"/openai/v1/models/(?P<endpoint>[^/]+)")
