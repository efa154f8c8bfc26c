// Official clients against the mock: node clients.mjs CASE URL. Prints what came as JSON.
import { createRequire } from 'node:module';

const [, , name, url] = process.argv;
const text = 'We are open from ten until six today.';
const key = 'sk-sdk';
let bytes = 0, first = null, chunks = 0, words = 0;
const began = performance.now();
const take = (n) => {
  if (n > 0) { bytes += n; chunks++; first ??= performance.now() - began; }
};
const drain = async (body) => { for await (const part of body) take(part.length ?? part.byteLength); };

const cases = {
  async 'openai-pcm'() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: key, baseURL: url + '/v1', maxRetries: 0 });
    const r = await client.audio.speech.create({ model: 'gpt-4o-mini-tts', voice: 'alloy', input: text, response_format: 'pcm' });
    await drain(r.body);
  },
  async 'openai-sse'() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: key, baseURL: url + '/v1', maxRetries: 0 });
    const r = await client.audio.speech.create({ model: 'gpt-4o-mini-tts', voice: 'alloy', input: text, response_format: 'pcm', stream_format: 'sse' }).asResponse();
    let rest = '', done = false;
    for await (const part of r.body.pipeThrough(new TextDecoderStream())) {
      rest += part;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const e of events) {
        const m = JSON.parse(e.slice('data: '.length));
        if (m.type === 'speech.audio.delta') take(Buffer.from(m.audio, 'base64').length);
        if (m.type === 'speech.audio.done') done = true;
      }
    }
    if (!done) throw new Error('no speech.audio.done');
  },
  async 'openai-refused'() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: 'wrong', baseURL: url + '/v1', maxRetries: 0 });
    try {
      await client.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: text, response_format: 'pcm' });
      throw new Error('not refused');
    } catch (e) {
      if (!(e instanceof OpenAI.AuthenticationError)) throw e;
    }
  },
  async elevenlabs() {
    const { ElevenLabsClient } = await import('@elevenlabs/elevenlabs-js');
    const client = new ElevenLabsClient({ apiKey: key, baseUrl: url });
    await drain(await client.textToSpeech.stream('voice', { text, modelId: 'eleven_flash_v2_5', outputFormat: 'pcm_24000' }, { maxRetries: 0 }));
  },
  async 'cartesia-bytes'() {
    const { default: Cartesia } = await import('@cartesia/cartesia-js');
    const client = new Cartesia({ apiKey: key, baseURL: url, maxRetries: 0 });
    const r = await client.tts.generate({ model_id: 'sonic-3', transcript: text, voice: { mode: 'id', id: 'v' }, output_format: { container: 'raw', encoding: 'pcm_s16le', sample_rate: 24000 } });
    await drain(r.body);
  },
  async 'cartesia-websocket'() {
    // As a module, 4.2.0 does not find ws.
    const Cartesia = createRequire(import.meta.url)('@cartesia/cartesia-js').default;
    const client = new Cartesia({ apiKey: key, baseURL: url, maxRetries: 0 });
    const ws = await client.tts.websocket();
    const context = ws.context({ model_id: 'sonic-3', voice: { mode: 'id', id: 'v' }, output_format: { container: 'raw', encoding: 'pcm_s16le', sample_rate: 24000 }, add_timestamps: true, contextId: 'sdk-1' });
    await context.push({ transcript: text, flush: true });
    await context.no_more_inputs();
    let flushed = false;
    for await (const m of context.receive({ timeout: 20000 })) {
      if (m.type === 'chunk') take(m.audio?.length ?? Buffer.from(m.data, 'base64').length);
      if (m.type === 'timestamps') words += m.word_timestamps.words.length;
      if (m.type === 'flush_done') flushed = true;
    }
    ws.close();
    if (!flushed) throw new Error('no flush_done');
  },
  async 'deepgram-http'() {
    const { DeepgramClient } = await import('@deepgram/sdk');
    const ws = url.replace('http', 'ws');
    const client = new DeepgramClient({ apiKey: key, environment: { base: url, production: ws, agent: ws, agentRest: url } });
    const r = await client.speak.v1.audio.generate({ text, model: 'aura-2-thalia-en', encoding: 'linear16', container: 'none', sample_rate: 24000 }, { maxRetries: 0 });
    await drain(r.stream());
  },
  async 'deepgram-websocket'() {
    const { DeepgramClient } = await import('@deepgram/sdk');
    const client = new DeepgramClient({ apiKey: key, baseUrl: url.replace('http', 'ws') });
    const c = await client.speak.v1.connect({ model: 'aura-2-thalia-en', encoding: 'linear16', sample_rate: '24000', reconnectAttempts: 0 });
    const flushed = new Promise((done, fail) => {
      c.on('message', (m) => {
        if (m instanceof Blob) take(m.size);
        else if (m.type === 'Flushed') done();
      });
      c.on('error', fail);
      c.on('close', () => fail(new Error('closed')));
    });
    c.connect();
    await c.waitForOpen();
    c.sendText({ type: 'Speak', text });
    c.sendFlush({ type: 'Flush' });
    await flushed;
    c.sendClose({ type: 'Close' });
    c.close();
  },
};

try {
  await cases[name]();
  console.log(JSON.stringify({ bytes, first_ms: first, chunks, words }));
  process.exit(0);
} catch (e) {
  console.error(e);
  process.exit(1);
}
