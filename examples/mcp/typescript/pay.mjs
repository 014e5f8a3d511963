// Pay for a tool call with the official clients of MCP and x402: node pay.mjs URL TOOL [ARGUMENTS]. Prints JSON.
// PAYER_KEY is the payer's private key; without it the payer is a new one, as the emulator allows.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const [url, name, text = "{}"] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PAYER_KEY ?? generatePrivateKey());
const payer = new x402Client().register("eip155:*", new ExactEvmScheme(account));
const client = new Client({ name: "payer", version: "1.0.0" });

function findPaymentRequired(result) {
  if (!result.isError) return undefined;
  try {
    const said = result.structuredContent ?? JSON.parse(result.content[0].text);
    return said.accepts && said;
  } catch {
    return undefined;
  }
}

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools(); // from now on the SDK holds results against the tools' output schemas
const call = { name, arguments: JSON.parse(text) };
let result = await client.callTool(call);
const required = findPaymentRequired(result);
if (required) {
  const payment = await payer.createPaymentPayload(required);
  result = await client.callTool({ ...call, _meta: { "x402/payment": payment } });
}
await client.close();
const told = result.content.map((item) => item.text);
const receipt = result._meta?.["x402/payment-response"] ?? null;
console.log(JSON.stringify({ error: result.isError ?? false, text: told, receipt }));
