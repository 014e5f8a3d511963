// The official x402 client for fetch pays: node pay.mjs METHOD URL [BODY]. Prints one line of JSON.
// PAYER_KEY is the payer's private key; without it the payer is a new one.
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const [method, url, body] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PAYER_KEY ?? generatePrivateKey());
const pay = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [ExactEvmScheme, UptoEvmScheme].map((Scheme) => ({ network: "eip155:*", client: new Scheme(account) })),
});

const told = { address: account.address };
try {
  const headers = body ? { "content-type": "application/json" } : {};
  const answer = await pay(url, { method, body, headers });
  const receipt = answer.headers.get("PAYMENT-RESPONSE");
  told.status = answer.status;
  told.body = await answer.json();
  told.paid = receipt && decodePaymentResponseHeader(receipt);
} catch (error) {
  told.refused = String(error);
}
console.log(JSON.stringify(told));
