"""The container on FastAPI, with OpenAI's path: a model that says the question again."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from on_fastapi import app
from starlette.exceptions import HTTPException

ABOUT = {"id": "chatcmpl-1", "created": 0, "model": "again"}


def refusal(status: int, message: str) -> JSONResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


@app.exception_handler(HTTPException)
async def refused(request: Request, error: HTTPException) -> Response:
    return refusal(error.status_code, str(error.detail))


@app.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    try:
        asked = json.loads(await request.body())
        text = asked["messages"][-1]["content"]
    except (ValueError, LookupError, TypeError) as error:
        return refusal(400, f"the body must be a chat completion request: {error!r}")
    if asked.get("stream"):
        return StreamingResponse(events(asked, text), media_type="text/event-stream")
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return JSONResponse({**ABOUT, "object": "chat.completion", "choices": [choice]})


async def events(asked: dict[str, Any], text: str) -> AsyncIterator[str]:
    for word in text.split(" "):
        await asyncio.sleep(0.02)  # a model thinks about each word
        yield event([{"index": 0, "delta": {"content": word}, "finish_reason": None}])
    yield event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    if (asked.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield event([], usage=usage)
    yield "data: [DONE]\n\n"


def event(choices: list[dict[str, Any]], **more: object) -> str:
    chunk = {**ABOUT, "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        sys.exit("usage: chat_on_fastapi.py serve")
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    uvicorn.run(app, host="0.0.0.0", port=port)
