"""Ask a paid completion endpoint with the OpenAI SDK.

python client.py "a question" [http://127.0.0.1:8000/v1]
"""

import asyncio
import sys

from eth_account import Account
from openai import AsyncOpenAI
from x402 import x402Client
from x402.http.clients import x402HttpxClient
from x402.mechanisms.evm.exact import ExactEvmScheme  # pyright: ignore[reportMissingTypeStubs]


async def main(question: str, url: str) -> None:
    payer = x402Client().register("eip155:*", ExactEvmScheme(Account.create()))  # your funded key
    # The SDK's own retries are off: a paid request that is open is fetched again, not bought again.
    async with x402HttpxClient(payer, timeout=60) as http:
        client = AsyncOpenAI(base_url=url, api_key="none", http_client=http, max_retries=0)
        completion = await client.chat.completions.create(
            model="repeat", messages=[{"role": "user", "content": question}]
        )
    print(completion.choices[0].message.content)
    print(completion.usage)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *sys.argv[2:] or ["http://127.0.0.1:8000/v1"]))
