"""AWS's FastAPI sample under uvicorn; with what its page asks for elsewhere it is a container."""

import os
import sys
from pathlib import Path

import uvicorn
from fastapi import Request, Response

sys.path.append(str(Path(__file__).parents[5] / "docs" / "examples" / "hosting"))

from fastapi_bidirectional import app


@app.get("/ping")
@app.post("/ping")
async def ping() -> Response:
    return Response()


@app.post("/invocations")
async def invocations(request: Request) -> Response:
    return Response(await request.body())


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        sys.exit("usage: on_fastapi.py serve")
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    uvicorn.run(app, host="0.0.0.0", port=port)
