"""What the SageMaker SDK's local mode asks a container with: a program for its interpreter.

Its argument is a folder of files. It prints a line of JSON for each file, split and strategy: the
requests in base64, or what it breaks off with.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from sagemaker.local.data import get_batch_strategy_instance, get_splitter_instance


def requests(path: Path, split: str, strategy: str) -> list[bytes]:
    batches = get_batch_strategy_instance(strategy, get_splitter_instance(split))
    return [each.encode() if isinstance(each, str) else each for each in batches.pad(str(path), 1)]


for path in sorted(Path(sys.argv[1]).iterdir()):
    for split in ("None", "Line", "RecordIO"):
        for strategy in ("MultiRecord", "SingleRecord"):
            said: dict[str, object] = {"file": path.name, "split": split, "strategy": strategy}
            try:
                asked = requests(path, split, strategy)
                said["requests"] = [base64.b64encode(each).decode() for each in asked]
            except Exception as error:
                said["broke_off"] = type(error).__name__
            print(json.dumps(said))
