"""LiteLLM, told what to do: its providers ``openai``, ``sagemaker_chat`` and ``sagemaker``."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
from typing import Any

import litellm
from told import follow

litellm.suppress_debug_info = True
# Without one of these, `sagemaker/` asks a registry of models for the template.
litellm.register_prompt_template(
    model="chat", roles={"user": {"pre_message": "", "post_message": ""}}
)


def asked(at: dict[str, Any], *, streamed: bool) -> dict[str, Any]:
    """The arguments that say where to ask."""
    provider = at["client"]
    if provider == "openai":
        return {
            "model": f"openai/{at['model']}",
            "api_base": at["base"],
            "api_key": at["key"],
            "stream": streamed,
            "num_retries": 0,
            "max_retries": 0,
            "max_tokens": at["most"],
        }
    path = "invocations-response-stream" if streamed else "invocations"
    return {
        "model": f"{provider}/{at['endpoint']}",
        "sagemaker_base_url": f"{at['gateway']}/endpoints/{at['endpoint']}/{path}",
        "aws_region_name": "us-east-1",
        "stream": streamed,
        "num_retries": 0,
        "max_tokens": at["most"],
    }


class Driver:
    async def version(self) -> str:
        return f"LiteLLM {importlib.metadata.version('litellm')}"

    async def whole(self, at: dict[str, Any], said: str, **options: Any) -> dict[str, Any]:
        members = {**asked(at, streamed=False), "messages": [question(said)], **options}
        answer = await litellm.acompletion(**members)
        return {"text": answer.choices[0].message.content, "usage": usage(answer.usage)}

    async def stream(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        chunks = await litellm.acompletion(
            **asked(at, streamed=True),
            messages=[question(said)],
            stream_options={"include_usage": True},
        )
        pieces, counted = [], None
        async for chunk in chunks:
            counted = usage(getattr(chunk, "usage", None)) or counted
            pieces += [each.delta.content for each in chunk.choices if each.delta.content]
        return {"pieces": pieces, "usage": counted}

    async def leave(self, at: dict[str, Any], said: str) -> int:
        chunks = await litellm.acompletion(**asked(at, streamed=True), messages=[question(said)])
        heard = 0
        async for chunk in chunks:
            heard += bool(chunk.choices and chunk.choices[0].delta.content)
            if heard == at["enough"]:
                break
        await chunks.aclose()
        return heard

    async def tool(self, at: dict[str, Any], said: str, tool: Any) -> dict[str, Any]:
        where = asked(at, streamed=False)
        messages: list[Any] = [question(said)]
        answer = await litellm.acompletion(**where, messages=messages, tools=[tool])
        reply = answer.choices[0].message
        if not reply.tool_calls:
            return {"calls": [], "text": reply.content}
        call = reply.tool_calls[0]
        messages += [reply, {"role": "tool", "tool_call_id": call.id, "content": "7 degrees"}]
        answer = await litellm.acompletion(**where, messages=messages, tools=[tool])
        return {
            "calls": [[call.function.name, json.loads(call.function.arguments)]],
            "text": answer.choices[0].message.content,
        }

    async def schema(self, at: dict[str, Any], said: str, schema: Any) -> str:
        wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
        text: str = (await self.whole(at, said, response_format=wanted))["text"]
        return text

    async def embed(self, at: dict[str, Any], texts: list[str]) -> list[list[float]]:
        where = asked(at, streamed=False)
        del where["stream"], where["max_tokens"]
        answer = await litellm.aembedding(**where, input=texts)
        return [each["embedding"] for each in answer.data]


def question(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def usage(counted: Any) -> list[int] | None:
    return counted and [counted.prompt_tokens, counted.completion_tokens]


asyncio.run(follow(Driver()))
