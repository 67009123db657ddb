"""OpenAI's Agents SDK, told what to do."""

from __future__ import annotations

import asyncio
import importlib.metadata
from typing import Any, Literal

import agents
import openai
from pydantic import BaseModel, Field
from told import follow

agents.set_tracing_disabled(True)


class Weather(BaseModel):
    city: Literal["Oslo", "Bergen"]
    degrees: int = Field(ge=0, le=99)


class WeatherOrText(agents.AgentOutputSchema):
    """Keeps the text of an answer that does not fit; the SDK's exception leaves it out."""

    def validate_json(self, json_str: str) -> Any:
        try:
            return super().validate_json(json_str)
        except agents.ModelBehaviorError:
            return json_str


def agent(at: dict[str, Any], **more: Any) -> agents.Agent:
    client = openai.AsyncOpenAI(base_url=at["base"], api_key=at["key"], max_retries=0)
    model = agents.OpenAIChatCompletionsModel(model=at["model"], openai_client=client)
    settings = agents.ModelSettings(include_usage=True, max_tokens=at["most"])
    return agents.Agent(name="asking", model=model, model_settings=settings, **more)


class Driver:
    async def version(self) -> str:
        return f"OpenAI Agents SDK {importlib.metadata.version('openai-agents')}"

    async def whole(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        answer = await agents.Runner.run(agent(at), said)
        return {"text": answer.final_output, "usage": usage(answer)}

    async def stream(self, at: dict[str, Any], said: str) -> dict[str, Any]:
        running = agents.Runner.run_streamed(agent(at), said)
        pieces = [delta async for event in running.stream_events() if (delta := delta_of(event))]
        return {"pieces": pieces, "usage": usage(running)}

    async def leave(self, at: dict[str, Any], said: str) -> int:
        running = agents.Runner.run_streamed(agent(at), said)
        heard = 0
        async for event in running.stream_events():
            heard += bool(delta_of(event))
            if heard == at["enough"]:
                running.cancel()
                break
        return heard

    async def tool(self, at: dict[str, Any], said: str, tool: Any) -> dict[str, Any]:
        calls = []

        @agents.function_tool
        def weather(city: str) -> str:
            """Tell the weather of a city."""
            calls.append(["weather", {"city": city}])
            return "7 degrees"

        answer = await agents.Runner.run(agent(at, tools=[weather]), said)
        return {"calls": calls, "text": answer.final_output}

    async def schema(self, at: dict[str, Any], said: str, schema: Any) -> Any:
        answer = await agents.Runner.run(agent(at, output_type=WeatherOrText(Weather)), said)
        found = answer.final_output
        return found if isinstance(found, str) else found.model_dump()


def delta_of(event: Any) -> str:
    """The text of an event; empty for one without."""
    is_text = getattr(event, "data", None) and event.data.type == "response.output_text.delta"
    return event.data.delta if is_text else ""


def usage(answer: Any) -> list[int]:
    counted = answer.context_wrapper.usage
    return [counted.input_tokens, counted.output_tokens]


asyncio.run(follow(Driver()))
