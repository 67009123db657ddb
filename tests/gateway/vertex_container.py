"""A container as Google's samples write them: FastAPI, told by AIP_… where it is to answer.

``python vertex_container.py`` serves a model that multiplies; the file ``WELL`` says that it can.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()
model = json.loads((Path(os.environ["AIP_STORAGE_URI"]) / "model.json").read_text())


@app.get(os.environ["AIP_HEALTH_ROUTE"], status_code=200)
def health() -> Response:
    return Response(status_code=200 if Path(os.environ["WELL"]).exists() else 503)


@app.post(os.environ["AIP_PREDICT_ROUTE"])
async def predict(request: Request) -> dict[str, object]:
    body = await request.json()
    return {"predictions": [model["factor"] * each for each in body["instances"]]}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["AIP_HTTP_PORT"]), log_level="warning")
