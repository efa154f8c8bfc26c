// The official client of AssemblyAI against a server: node assemblyai.mjs WSS_URL
// PCM, the latter a file of 16-bit samples at 16 kHz. It prints what it heard as
// JSON. NODE_EXTRA_CA_CERTS names the CA.
import { readFileSync } from "node:fs";
import { AssemblyAI } from "assemblyai";

const [url, file] = process.argv.slice(2);
const pcm = readFileSync(file);
const out = {};

// hear sends the sound in pieces of 100 ms and then says what then does.
async function hear(key, params, then) {
  const client = new AssemblyAI({ apiKey: key });
  const rt = client.streaming.transcriber({ websocketBaseUrl: url, sampleRate: 16000, encoding: "pcm_s16le", maxConnectionRetries: 0, connectTimeout: 10000, ...params });
  const heard = { turns: [], errors: [], started: false };
  rt.on("turn", (turn) => heard.turns.push(turn));
  rt.on("speechStarted", () => { heard.started = true; });
  rt.on("error", (err) => heard.errors.push(err.message));
  rt.on("close", (code) => { heard.code = code; });
  heard.id = (await rt.connect()).id;
  for (let at = 0; at < pcm.length; at += 3200) rt.sendAudio(pcm.subarray(at, at + 3200));
  await then(rt, heard);
  return heard;
}

// until waits until something is so.
async function until(is) {
  for (let i = 0; i < 500 && !is(); i++) await new Promise((resolve) => setTimeout(resolve, 20));
}

const plain = await hear("test-key", { speechModel: "u3-rt-pro" }, async (rt, heard) => {
  await until(() => heard.turns.length > 0);
  rt.forceEndpoint();
  await until(() => heard.turns.some((t) => t.end_of_turn));
  rt.updateConfiguration({ max_turn_silence: 900 });
  await rt.close(true);
});
const last = plain.turns.at(-1);
out.id = plain.id;
out.started = plain.started;
out.text = plain.turns.filter((t) => t.end_of_turn).map((t) => t.transcript).join("|");
out.partials = plain.turns.some((t) => !t.end_of_turn && t.words.some((w) => !w.word_is_final));
out.words = last.words.map((w) => w.text).join(" ");
out.order = last.turn_order;
out.errors = plain.errors.join("|");

const pretty = await hear("test-key", { speechModel: "universal-streaming-english", formatTurns: true }, async (rt, heard) => {
  await until(() => heard.turns.some((t) => t.turn_is_formatted));
  await rt.close(true);
});
out.formatted = pretty.turns.filter((t) => t.end_of_turn).map((t) => t.transcript).join("|");

// Two messages with too little sound: the service closes with 3007.
const short = await hear("test-key", {}, async (rt, heard) => {
  for (let i = 0; i < 2; i++) rt.sendAudio(pcm.subarray(0, 640));
  await until(() => heard.code);
});
out.shortCode = short.code;
out.shortError = short.errors.length > 0;

try {
  await hear("wrong-key", {}, async () => {});
} catch (err) {
  out.refused = String(err.message ?? err);
}
console.log(JSON.stringify(out));
process.exit(0);
