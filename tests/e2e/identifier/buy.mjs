// The official x402 client buys a URL several times under one name: node buy.mjs ID URL...
// Prints the status and the body of each response as one line of JSON.
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const [id, ...urls] = process.argv.slice(2);
const client = new x402Client();
client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(generatePrivateKey())));
if (id) {
  client.onBeforePaymentCreation(async ({ paymentRequired }) => {
    appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, id);
  });
}
const pay = wrapFetchWithPayment(fetch, client);
const told = [];
for (const url of urls) {
  const answer = await pay(url);
  told.push([answer.status, await answer.json()]);
}
console.log(JSON.stringify(told));
