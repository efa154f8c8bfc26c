// The official client of OpenAI against a server: node openai.mjs HTTPS_URL WAV
// PCM24K. It prints what it heard as JSON. NODE_EXTRA_CA_CERTS names the CA.
import { createReadStream, readFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const [url, wav, raw] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "test-key", baseURL: url, maxRetries: 0 });
const out = {};

const whole = await client.audio.transcriptions.create({ file: createReadStream(wav), model: "gpt-4o-transcribe" });
out.whole = whole.text;
const verbose = await client.audio.transcriptions.create({ file: createReadStream(wav), model: "whisper-1", response_format: "verbose_json" });
out.verbose = verbose.segments[0].text;

out.deltas = "";
for await (const event of await client.audio.transcriptions.create({ file: createReadStream(wav), model: "gpt-4o-transcribe", stream: true })) {
  if (event.type === "transcript.text.delta") out.deltas += event.delta;
  if (event.type === "transcript.text.done") out.done = event.text;
}

try {
  await client.audio.transcriptions.create({ file: new File(["no sound"], "x.wav"), model: "whisper-1" });
} catch (err) {
  out.status = err.status;
}

for (const detection of [null, { type: "server_vad" }]) {
  const pcm = readFileSync(raw);
  const rt = new OpenAIRealtimeWS({ intent: "transcription" }, client);
  let deltas = "";
  const text = await new Promise((resolve, reject) => {
    rt.on("error", reject);
    rt.on("session.created", () => rt.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { format: { type: "audio/pcm", rate: 24000 }, transcription: { model: "gpt-4o-transcribe" }, turn_detection: detection } } },
    }));
    rt.on("session.updated", () => {
      for (let at = 0; at < pcm.length; at += 960) rt.send({ type: "input_audio_buffer.append", audio: pcm.subarray(at, at + 960).toString("base64") });
      if (!detection) rt.send({ type: "input_audio_buffer.commit" });
    });
    rt.on("conversation.item.input_audio_transcription.delta", (e) => { deltas += e.delta; });
    rt.on("conversation.item.input_audio_transcription.completed", (e) => resolve(e.transcript));
  });
  rt.close();
  out[detection ? "vad" : "committed"] = text;
  out[detection ? "vadDeltas" : "committedDeltas"] = deltas;
}
console.log(JSON.stringify(out));
process.exit(0);
