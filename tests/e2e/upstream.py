"""A model behind the OpenAI API, for `test_example_completions.py`: it says what it was given."""

from typing import Any

from fastapi import FastAPI

app = FastAPI()


@app.post("/v1/chat/completions")
async def complete(question: dict[str, Any]) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"seed {question['seed']}"}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13},
    }
