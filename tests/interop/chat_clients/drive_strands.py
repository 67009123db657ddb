"""Strands Agents, told what to do: with ``OpenAIModel`` and with ``SageMakerAIModel``."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
from typing import Any, Literal

import boto3
import strands
from botocore.eventstream import EventStream
from pydantic import BaseModel, Field
from strands.models.openai import OpenAIModel
from strands.models.sagemaker import SageMakerAIModel
from told import follow


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Bergen"]
    degrees: int = Field(ge=0, le=99)


def model(at: dict[str, Any], *, streamed: bool) -> Any:
    if at["client"] == "OpenAIModel":
        client_args = {"base_url": at["base"], "api_key": at["key"], "max_retries": 0}
        return OpenAIModel(
            client_args=client_args,
            model_id=at["model"],
            params={"max_tokens": at["most"], "stop": at["stop"]},
            stream=streamed,
        )
    counting = {"stream_options": {"include_usage": True}} if streamed else {}
    where = {"endpoint_name": at["endpoint"], "region_name": "us-east-1"}
    return SageMakerAIModel(
        endpoint_config=where,
        payload_config={
            "max_tokens": at["most"],
            "stop": at["stop"],
            "stream": streamed,
            "additional_args": counting,
        },
        boto_session=boto3.Session(region_name="us-east-1"),
    )


def agent(at: dict[str, Any], *tools: Any, streamed: bool = True) -> strands.Agent:
    return strands.Agent(
        model=model(at, streamed=streamed),
        tools=list(tools),
        callback_handler=None,
        retry_strategy=None,
    )


class Driver:
    async def version(self) -> str:
        return f"Strands Agents {importlib.metadata.version('strands-agents')}"

    async def whole(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        answer = await agent(at, streamed=False).invoke_async(said)
        return {"text": str(answer).strip(), "usage": usage(answer)}

    async def stream(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        pieces, answer = [], None
        async for event in agent(at).stream_async(said):
            pieces += [event["data"]] if event.get("data") else []
            answer = event.get("result", answer)
        return {"pieces": pieces, "usage": usage(answer)}

    async def leave(self, at: dict[str, Any], said: str) -> int:
        heard = 0
        asking = agent(at)
        async for event in asking.stream_async(said):
            heard += bool(event.get("data"))
            if heard == at["enough"]:
                asking.cancel()
        await collected()
        return heard

    async def tool(self, at: dict[str, Any], said: str, tool: Any) -> dict[str, Any]:
        calls = []

        @strands.tool
        def weather(city: str) -> str:
            """Tell the weather of a city."""
            calls.append(["weather", {"city": city}])
            return "7 degrees"

        answer = await agent(at, weather).invoke_async(said)
        return {"calls": calls, "text": str(answer).strip()}

    async def schema(self, at: dict[str, Any], said: str, schema: Any) -> Any:
        answer = await agent(at).invoke_async(said, structured_output_model=Weather)
        return answer.structured_output.model_dump()


async def collected() -> None:
    """Return once Python has collected boto3's streams: Strands does not close them."""
    while any(isinstance(each, EventStream) for each in gc.get_objects()):
        await asyncio.sleep(0.01)  # for the generators that hold them
        gc.collect()


def usage(answer: Any) -> list[int] | None:
    counted = answer.metrics.accumulated_usage
    return [counted["inputTokens"], counted["outputTokens"]]


asyncio.run(follow(Driver()))
