import { open, readFile, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const PENDING = [202, 429, 502, 503, 504];

/** A fetch for `wrapFetchWithPayment` that keeps one payment in `file` until its result has arrived. */
export function keepPayment(fetch, file, waitSeconds = 60) {
  return async (input, init) => {
    const request = new Request(input, init);
    const signed = request.headers.get("PAYMENT-SIGNATURE");
    if (signed) await save(file, signed); // before it is first sent
    const proof = signed ?? (await load(file));
    if (!proof) return fetch(request);

    const end = Date.now() + waitSeconds * 1000;
    for (;;) {
      const response = await send(fetch, request, proof);
      if (response && isResult(response)) {
        await rm(file);
        return response;
      }
      const pause = Number(response?.headers.get("Retry-After")) || 1;
      if (!response || PENDING.includes(response.status) || response.headers.has("Retry-After")) {
        if (Date.now() + pause * 1000 > end) throw new Error(`The payment in ${file} is pending. Call again.`);
        await sleep(pause * 1000);
        continue;
      }
      const { transaction_id, message = "" } = await response.clone().json().catch(() => ({}));
      if (response.status === 402 && (transaction_id || message.includes("nothing was charged"))) {
        await rm(file);
        return signed ? response : fetch(request); // an earlier payment failed: ask for the price again
      }
      throw new Error(`${response.status} ${message} The payment in ${file} may be charged. Look for it first.`);
    }
  };
}

function isResult({ status, headers }) {
  return status !== 202 && status !== 402 && (status < 400 || headers.has("PAYMENT-RESPONSE"));
}

/** Send the request with the payment, and read the whole response; undefined if it did not arrive. */
async function send(fetch, request, proof) {
  const paid = new Request(request.clone());
  paid.headers.set("PAYMENT-SIGNATURE", proof);
  try {
    const response = await fetch(paid);
    const { status, headers } = response;
    const body = await response.arrayBuffer();
    return new Response(body.byteLength ? body : null, { status, headers });
  } catch {
    return undefined;
  }
}

async function save(file, proof) {
  const handle = await open(file, "wx", 0o600); // fails if there is a payment already
  await handle.writeFile(`${proof}\n`);
  await handle.sync();
  await handle.close();
}

async function load(file) {
  const text = await readFile(file, "ascii").catch(() => "");
  if (text && !text.endsWith("\n")) await rm(file); // half written, and so never sent
  return text.endsWith("\n") ? text.trim() : null;
}
