// The official client of OpenAI's Realtime API against an agent: node agent.mjs
// MODULES WSS_URL PCM24K. It says the sound twice in real time, hears the first
// answer out and cuts the second one off, and prints what it saw as JSON. MODULES
// is a folder whose node_modules have openai and ws; NODE_EXTRA_CA_CERTS names
// the CA.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [modules, url, file] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { OpenAI } = require("openai");
const { OpenAIRealtimeWS } = require("openai/realtime/ws");

const pcm = readFileSync(file);
const rt = new OpenAIRealtimeWS({ model: "gpt-realtime" }, new OpenAI({ apiKey: "test-key", baseURL: url, maxRetries: 0 }));
const events = [];
let audio = 0, waiting = [];
rt.on("error", (err) => { console.error(String(err)); process.exit(1); });
rt.on("event", (e) => {
  if (e.type === "response.output_audio.delta") audio += Buffer.from(e.delta, "base64").length / 2;
  if (events.at(-1) !== e.type) events.push(e.type);
  waiting = waiting.filter((w) => e.type !== w.type || (w.resolve(e), false));
});
const next = (type) => new Promise((resolve) => waiting.push({ type, resolve }));

await next("session.created");
rt.send({ type: "session.update", session: { type: "realtime", audio: { input: { turn_detection: { type: "server_vad", silence_duration_ms: 200 } } } } });
await next("session.updated");

let sound = Buffer.alloc(0);
const frame = 960;
setInterval(() => {
  const piece = Buffer.alloc(frame);
  sound.copy(piece, 0, 0, Math.min(frame, sound.length));
  sound = sound.subarray(frame);
  rt.send({ type: "input_audio_buffer.append", audio: piece.toString("base64") });
}, 20);

sound = pcm;
const transcript = next("response.output_audio_transcript.done");
const first = await next("response.done");
const out = { status: first.response.status, samples: audio, transcript: (await transcript).transcript };

sound = pcm;
const delta = await next("response.output_audio.delta");
const done = next("response.done"), truncated = next("conversation.item.truncated");
rt.send({ type: "response.cancel" });
rt.send({ type: "conversation.item.truncate", item_id: delta.item_id, content_index: delta.content_index, audio_end_ms: 50 });
out.cut = (await done).response.status;
out.truncated = (await truncated).audio_end_ms;
out.events = events;
console.log(JSON.stringify(out));
process.exit(0);
