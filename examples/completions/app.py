"""An OpenAI-compatible completion endpoint that is paid per request and reports the tokens of each.

FAREGATE_BASE_URL=emulator: uvicorn --app-dir examples/completions app:app

UPSTREAM_URL is the address of any server with the same API, such as vLLM, Ollama or llama.cpp: http://127.0.0.1:11434/v1.
Without it a built-in model answers, which repeats the question.
"""

import os
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from faregate.fastapi import Payment, PaywallMiddleware, paid

UPSTREAM = os.environ.get("UPSTREAM_URL")


class Message(BaseModel):
    role: str
    content: str


class Question(BaseModel):
    """What a client of the API sends. Fields that are not read here reach the upstream server unchanged."""

    model_config = ConfigDict(extra="allow")

    model: str = "repeat"
    messages: list[Message]
    stream: bool = False


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with httpx.AsyncClient(timeout=60) as client:
        app.state.client = client
        yield


app = FastAPI(title="Completions", lifespan=lifespan)
app.add_middleware(PaywallMiddleware)


@app.post("/v1/chat/completions")
async def complete(
    question: Question, request: Request, payment: Annotated[Payment, Depends(paid("text_summary"))]
) -> dict[str, Any]:
    """Answer a conversation. Streaming is not possible: nothing leaves before it is paid."""
    if question.stream:
        raise HTTPException(400, "set stream to false: a result leaves only after it is paid")
    completion = await ask(question, request.app.state.client) if UPSTREAM else repeat(question)
    usage = completion["usage"]
    payment.report({"input-tokens": usage["prompt_tokens"], "output-tokens": usage["completion_tokens"]})
    return completion


async def ask(question: Question, client: httpx.AsyncClient) -> dict[str, Any]:
    """Ask the upstream server. An error of its own is our 502, and a payer is not charged for that."""
    try:
        answer = await client.post(f"{UPSTREAM}/chat/completions", json=question.model_dump())
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise HTTPException(502, "the model did not answer") from error
    completion: dict[str, Any] = answer.json()
    return completion


def repeat(question: Question) -> dict[str, Any]:
    said = question.messages[-1].content
    prompt, words = sum(len(one.content.split()) for one in question.messages), len(said.split())
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": words, "total_tokens": prompt + words},
    }


@app.exception_handler(HTTPException)
async def show_error(request: Request, error: HTTPException) -> JSONResponse:
    """Errors as clients of the API expect them."""
    return JSONResponse(
        {"error": {"message": error.detail, "type": "invalid_request_error"}}, error.status_code
    )
