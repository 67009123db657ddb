"""OpenAI's client for Python, told what to do. ``clients.py`` says what the commands mean."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
from typing import Any

import openai
from told import follow


def client(at: dict[str, Any]) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=at["base"], api_key=at["key"], max_retries=0)


def asked(at: dict[str, Any]) -> dict[str, Any]:
    return {"model": at["model"], "max_tokens": at["most"]}


class Driver:
    async def version(self) -> str:
        return f"openai {importlib.metadata.version('openai')}"

    async def whole(self, at: dict[str, Any], said: str, **options: Any) -> dict[str, Any]:
        async with client(at) as own:
            members = {**asked(at), "messages": [question(said)], **options}
            answer = await own.chat.completions.create(**members)
        return {"text": answer.choices[0].message.content, "usage": usage(answer.usage)}

    async def stream(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        pieces, counted = [], None
        async with client(at) as own:
            chunks = await own.chat.completions.create(
                **asked(at),
                messages=[question(said)],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for chunk in chunks:
                counted = usage(chunk.usage) or counted
                pieces += [each.delta.content for each in chunk.choices if each.delta.content]
        return {"pieces": pieces, "usage": counted}

    async def leave(self, at: dict[str, Any], said: str) -> int:
        own = client(at)
        chunks = await own.chat.completions.create(
            **asked(at), messages=[question(said)], stream=True
        )
        heard = 0
        async for chunk in chunks:
            heard += bool(chunk.choices and chunk.choices[0].delta.content)
            if heard == at["enough"]:
                break
        await chunks.close()
        return heard

    async def tool(self, at: dict[str, Any], said: str, tool: Any) -> dict[str, Any]:
        messages: list[Any] = [question(said)]
        async with client(at) as own:
            answer = await own.chat.completions.create(**asked(at), messages=messages, tools=[tool])
            reply = answer.choices[0].message
            calls = [
                [each.function.name, each.function.arguments] for each in reply.tool_calls or ()
            ]
            if not reply.tool_calls:
                return {"calls": [], "text": reply.content}
            result = {
                "role": "tool",
                "tool_call_id": reply.tool_calls[0].id,
                "content": "7 degrees",
            }
            messages += [reply, result]
            answer = await own.chat.completions.create(**asked(at), messages=messages, tools=[tool])
        return {
            "calls": [[name, json.loads(arguments)] for name, arguments in calls],
            "text": answer.choices[0].message.content,
        }

    async def schema(self, at: dict[str, Any], said: str, schema: Any) -> str:
        wanted = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}
        text: str = (await self.whole(at, said, response_format=wanted))["text"]
        return text

    async def embed(self, at: dict[str, Any], texts: list[str]) -> list[list[float]]:
        async with client(at) as own:
            answer = await own.embeddings.create(model=at["model"], input=texts)
        return [each.embedding for each in answer.data]


def question(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def usage(counted: Any) -> list[int] | None:
    return counted and [counted.prompt_tokens, counted.completion_tokens]


asyncio.run(follow(Driver()))
