// Buy once, and never pay twice: node buy.mjs URL FILE. Prints one line of JSON.
// PAYER_KEY is the payer's private key. FILE keeps the payment until its result has arrived.
import { ExactEvmScheme } from "@x402/evm";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { keepPayment } from "./keep.mjs";

const [url, file] = process.argv.slice(2);
const account = privateKeyToAccount(process.env.PAYER_KEY);
const payer = new x402Client().register("eip155:*", new ExactEvmScheme(account));
const buy = wrapFetchWithPayment(keepPayment(fetch, file), payer);

const response = await buy(url);
console.log(JSON.stringify({ status: response.status, body: await response.text() }));
