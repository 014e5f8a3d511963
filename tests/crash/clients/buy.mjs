// Buyers with the official x402 client for fetch, as its README uses it. Reads what to buy as JSON from stdin, and
// prints one line of JSON for each order. It is run in the folder of examples/chain/typescript.
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const parts = [];
for await (const part of process.stdin) parts.push(part);
const { url, paths, atOnce, seconds, longestPause } = JSON.parse(Buffer.concat(parts));
const end = Date.now() + seconds * 1000;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function buy(path) {
  const account = privateKeyToAccount(generatePrivateKey());
  const pay = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
  });
  const order = { path, payer: account.address, tries: 0, delivered: false };
  while (!order.delivered && Date.now() < end) {
    order.tries += 1;
    let pause = 0.2;
    try {
      const answer = await pay(url + path);
      const body = await answer.text();
      order.delivered = answer.status === 200 && body.includes("order");
      pause = Math.min(Number(answer.headers.get("retry-after") ?? pause), longestPause);
    } catch {
      // The answer was lost, or the client did not pay: ask again.
    }
    if (!order.delivered) await sleep(pause * 1000);
  }
  console.log(JSON.stringify(order));
}

const waiting = paths.values();
await Promise.all(Array.from({ length: atOnce }, async () => {
  for (const path of waiting) await buy(path);
}));
