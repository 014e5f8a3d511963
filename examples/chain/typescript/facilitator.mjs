// The official x402 facilitator for TypeScript over HTTP, with the arguments of examples/chain/facilitator.py:
// node facilitator.mjs RPC_URL [--chain 84532] [--port 0] [--patience 3]
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import { createWalletClient, defineChain, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    chain: { type: "string", default: "84532" },
    port: { type: "string", default: "0" },
    patience: { type: "string", default: "3" },
  },
});
const [rpcUrl] = positionals;
const chain = defineChain({
  id: Number(values.chain),
  name: "local",
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [rpcUrl] } },
});
const account = privateKeyToAccount(process.env.FACILITATOR_GAS_KEY);
const client = createWalletClient({ account, chain, transport: http(), pollingInterval: 100 }).extend(publicActions);
const signer = toFacilitatorEvmSigner(
  { ...client, address: account.address },
  { confirmationTimeoutMs: Number(values.patience) * 1000 },
);
const facilitator = new x402Facilitator();
facilitator.register([`eip155:${values.chain}`], new ExactEvmScheme(signer));
facilitator.register([`eip155:${values.chain}`], new UptoEvmScheme(signer));

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  let status = 200;
  let answer;
  try {
    if (request.url === "/supported") {
      answer = facilitator.getSupported();
    } else {
      const { paymentPayload, paymentRequirements } = JSON.parse(Buffer.concat(parts));
      const act = request.url === "/verify" ? "verify" : "settle";
      answer = await facilitator[act](paymentPayload, paymentRequirements);
    }
  } catch (error) {
    status = 500;
    answer = { error: String(error) };
  }
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
});
server.listen(Number(values.port), "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
});
// It ends with whoever started it.
process.stdin.on("end", () => process.exit()).resume();
