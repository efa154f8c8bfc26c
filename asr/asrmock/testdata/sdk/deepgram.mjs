// The official client of Deepgram against a server: node deepgram.mjs URL PCM,
// the latter a file of 16-bit samples at 16 kHz. It prints what it heard as JSON.
import { readFileSync } from "node:fs";
import { DeepgramClient } from "@deepgram/sdk";

const [url, file] = process.argv.slice(2);
const pcm = readFileSync(file);
const client = new DeepgramClient({ apiKey: "test-key", baseUrl: url });
const out = {};

async function hear(version, args, close) {
  const messages = [];
  const socket = await client.listen[version].createConnection({ encoding: "linear16", sample_rate: 16000, reconnectAttempts: 0, ...args });
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.on("message", (m) => messages.push(m));
  socket.on("error", (e) => { out.error = String(e.message ?? e); });
  socket.connect();
  await socket.waitForOpen();
  for (let at = 0; at < pcm.length; at += 640) socket.sendMedia(pcm.subarray(at, at + 640));
  close(socket);
  await closed;
  socket.close();
  return messages;
}

const v1 = await hear("v1", { model: "nova-3", interim_results: true, vad_events: true, endpointing: false, tag: "v1" }, (s) => {
  setTimeout(() => s.sendFinalize({ type: "Finalize" }), 500);
  setTimeout(() => s.sendCloseStream({ type: "CloseStream" }), 1500);
});
const results = v1.filter((m) => m.type === "Results");
out.v1 = results.filter((m) => m.is_final).map((m) => m.channel.alternatives[0].transcript).join(" ").trim();
out.v1Interim = results.some((m) => !m.is_final && m.channel.alternatives[0].words.length > 0);
out.v1Finalized = results.some((m) => m.from_finalize);
out.v1Started = v1.some((m) => m.type === "SpeechStarted");
out.v1Last = v1.at(-1).type;

const v2 = await hear("v2", { model: "flux-general-en", tag: "v2" }, (s) => setTimeout(() => s.sendCloseStream({ type: "CloseStream" }), 1500));
out.v2 = v2.filter((m) => m.event === "EndOfTurn").map((m) => m.transcript).join(" ");
out.v2First = v2[0].type;
out.v2Event = v2[1].event;
console.log(JSON.stringify(out));
process.exit(0);
