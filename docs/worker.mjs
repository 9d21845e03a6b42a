// A joblog worker in plain node, no packages: imports the lines of a file into another, 10 lines a unit.
// Usage: JOBLOG_URL=http://127.0.0.1:8765 JOBLOG_TOKEN=jl_… node worker.mjs NAME [--until-idle]
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [name, once] = process.argv.slice(2);
const { JOBLOG_URL, JOBLOG_TOKEN, SLOW, WAIT } = process.env;
const SIZE = 10;
// Lost answers and busy databases are asked again: every request is safe to repeat.
async function ask(method, path, body) {
  for (;;) {
    try {
      const answer = await fetch(JOBLOG_URL + path, {
        method,
        headers: { authorization: `Bearer ${JOBLOG_TOKEN}`, "content-type": "application/json" },
        body: body && JSON.stringify(body),
      });
      if (answer.status !== 503) {
        const made = await answer.json();
        if (!answer.ok) throw Object.assign(new Error(made.detail), { code: made.code });
        return made;
      }
    } catch (error) {
      if (error.name !== "TypeError") throw error; // a refusal: the caller decides
    }
    await sleep(200);
  }
}

async function run({ id, token, args, checkpoint }) {
  const base = `/api/v1/claims/${id}`;
  const lines = readFileSync(args.file, "utf8").split("\n").filter(Boolean);
  // The lease is kept by every command; a unit that takes longer than a third of it needs `renew` from a timer.
  const beat = setInterval(() => ask("POST", `${base}/renew`, { token }).catch(() => {}), 10_000);
  try {
    let n = checkpoint;
    for (; n * SIZE < lines.length; n++) {
      const unit = `lines:${n}`;
      if (!(await ask("GET", `${base}/units/${unit}`)).done) {
        const part = `${args.target}/${n}.part.${name}`;
        writeFileSync(part, lines.slice(n * SIZE, (n + 1) * SIZE).join("\n") + "\n");
        renameSync(part, `${args.target}/${n}`); // safe to repeat
      }
      const held = await ask("POST", `${base}/advance`, { token, unit, evidence: { file: `${n}` } });
      if (held.wish) return void (await ask("POST", `${base}/release`, { token }));
      if (SLOW) await sleep(SLOW * 1000);
    }
    await ask("POST", `${base}/complete`, { token, result: { units: n } });
  } catch (error) {
    if (error.code !== "lease-lost") throw error; // drop the work: another worker goes on
  } finally {
    clearInterval(beat);
  }
}

for (;;) {
  const { claims } = await ask("POST", "/api/v1/claims", { worker: name, kinds: ["lines.import"], wait: Number(WAIT ?? 20) });
  if (!claims.length && once === "--until-idle") break;
  for (const claim of claims) await run(claim);
}
