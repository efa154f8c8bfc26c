// Plugins of LiveKit Agents against the mocks, without a room: node livekit.mjs
// stt|tts URL [PCM]; URL is that of the mock, PCM a file of 16-bit samples at 16 kHz.
// It prints what came of it as JSON.
import { readFileSync } from "node:fs";
import { initializeLogger, stt } from "@livekit/agents";
import * as deepgram from "@livekit/agents-plugin-deepgram";
import * as cartesia from "@livekit/agents-plugin-cartesia";
import * as elevenlabs from "@livekit/agents-plugin-elevenlabs";
import { AudioFrame } from "@livekit/rtc-node";

initializeLogger({ pretty: false, level: "silent" });
const [what, url, file] = process.argv.slice(2);
const ws = url.replace(/^http/, "ws");
const apiKey = process.env.KEY ?? "test-key";
const out = {};

// hear has a recognizer listen to the sound, in frames of 20 ms.
async function hear(recognizer) {
  const pcm = readFileSync(file);
  const samples = new Int16Array(pcm.buffer.slice(pcm.byteOffset, pcm.byteOffset + pcm.byteLength));
  const stream = recognizer.stream();
  const heard = { finals: [], partials: 0, events: [] };
  const listening = (async () => {
    for await (const event of stream) {
      heard.events.push(event.type);
      if (event.type === stt.SpeechEventType.INTERIM_TRANSCRIPT) heard.partials++;
      if (event.type === stt.SpeechEventType.FINAL_TRANSCRIPT) heard.finals.push(event.alternatives[0].text);
    }
  })();
  for (let at = 0; at < samples.length; at += 320) {
    const part = samples.slice(at, at + 320);
    stream.pushFrame(new AudioFrame(part, 16000, 1, part.length));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  for (let i = 0; i < 300 && heard.finals.length === 0; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  stream.flush();
  stream.endInput();
  await listening;
  return { text: heard.finals.join(" ").trim(), partials: heard.partials > 0, started: heard.events.includes(stt.SpeechEventType.START_OF_SPEECH) };
}

// speak has a synthesizer say a text that comes in two pieces.
async function speak(synthesizer) {
  const metrics = [];
  synthesizer.on("metrics_collected", (m) => metrics.push(m));
  const stream = synthesizer.stream();
  stream.pushText("Your order is on its way. ");
  stream.pushText("It should be with you tomorrow.");
  stream.flush();
  stream.endInput();
  let samples = 0, rate = 0, loud = 0;
  for await (const audio of stream) {
    if (typeof audio === "symbol") continue;
    samples += audio.frame.samplesPerChannel;
    rate = audio.frame.sampleRate;
    for (const x of audio.frame.data) loud = Math.max(loud, Math.abs(x));
  }
  return { samples, rate, loud, ttfb: metrics.at(-1)?.ttfbMs };
}

if (what === "stt") {
  out.deepgram = await hear(new deepgram.STT({ apiKey, baseUrl: ws }));
  out.flux = await hear(new deepgram.STTv2({ apiKey, endpointUrl: `${ws}/v2/listen` }));
} else {
  out.deepgram = await speak(new deepgram.TTS({ apiKey, baseUrl: url }));
  out.cartesia = await speak(new cartesia.TTS({ apiKey, baseUrl: url }));
  out.elevenlabs = await speak(new elevenlabs.TTS({ apiKey, baseURL: url + "/v1" }));
}
console.log(JSON.stringify(out));
process.exit(0);
