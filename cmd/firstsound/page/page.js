const $ = (id) => document.getElementById(id)
const ms = (ns) => (ns / 1e6).toFixed(1)
// A stage has its colour in every turn.
const colourOf = new Map()
const colour = (stage) => {
  if (!colourOf.has(stage)) colourOf.set(stage, colours[colourOf.size % colours.length])
  return colourOf.get(stage)
}
const colours = ['#4472c4', '#d17a22', '#3a9d5d', '#b8478e', '#8a6fd1', '#c5a100', '#2c9db5', '#c0504d', '#7d8b99']

let about = { utterances: [], scenarios: [] }
let call = null // what belongs to the call that goes on
const turns = new Map() // by session.turn
const results = [] // what is told of finished turns, for who looks from outside
window.firstsound = { results, state: () => $('state').textContent }

function state(text) { $('state').textContent = text }

function fail(text) {
  $('error').textContent = text
  $('error').hidden = !text
}

function option(select, value, text) {
  const o = document.createElement('option')
  o.value = value
  o.textContent = text
  select.append(o)
}

async function load() {
  about = await (await fetch('about')).json()
  for (const s of about.scenarios) option($('scenario'), s.name, s.name ? `${s.name}: ${s.title}` : s.title)
  for (const u of about.utterances) option($('recording'), u.id, `${u.language}: ${u.text || u.id}`)
  $('token-row').hidden = !about.token
}

async function begin() {
  fail('')
  $('call').disabled = true
  state('connecting')
  const context = new AudioContext()
  await context.resume()
  await context.audioWorklet.addModule('meter.js')
  const microphone = context.createMediaStreamDestination()
  // Silence keeps packets coming while nobody speaks.
  const silence = new ConstantSourceNode(context, { offset: 0 })
  silence.connect(microphone)
  silence.start()
  const pc = new RTCPeerConnection()
  const c = call = { context, microphone, pc, meter: null, asked: [], samples: [], last: null, clocks: [] }
  pc.addTransceiver(microphone.stream.getAudioTracks()[0], { direction: 'sendrecv', streams: [microphone.stream] })
  pc.ontrack = (e) => heard(c, e)
  pc.onconnectionstatechange = () => {
    if (call !== c) return
    state(pc.connectionState)
    if (pc.connectionState === 'connected') {
      $('play').disabled = $('microphone').disabled = false
      c.sampling ??= setInterval(() => sample(c), 500)
    } else if (pc.connectionState === 'failed' || pc.connectionState === 'closed') {
      end()
    }
  }
  c.channel = pc.createDataChannel('firstsound')
  c.channel.onopen = () => askClock(c, 5)
  c.channel.onmessage = (e) => told(c, JSON.parse(e.data))
  $('hangup').disabled = false
  await pc.setLocalDescription()
  await new Promise((done) => {
    if (pc.iceGatheringState === 'complete') return done()
    pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done()
    setTimeout(done, 2000) // a server that does not answer must not hold up the rest
  })
  const headers = { 'Content-Type': 'application/json' }
  if ($('token').value) headers.Authorization = 'Bearer ' + $('token').value
  const r = await fetch('api/offer', {
    method: 'POST', headers,
    body: JSON.stringify({ sdp: pc.localDescription.sdp, type: 'offer', request_data: { scenario: $('scenario').value } }),
  })
  if (!r.ok) throw new Error(`the agent answers ${r.status}: ${(await r.text()).slice(0, 300)}`)
  await pc.setRemoteDescription(await r.json())
}

function heard(c, e) {
  // Without an element that plays it, the track is silent in WebAudio.
  const stream = new MediaStream([e.track])
  $('answer').srcObject = stream
  e.receiver.jitterBufferTarget = Number($('buffer').value) || null
  c.receiver = e.receiver
  c.meter = new AudioWorkletNode(c.context, 'meter', { numberOfOutputs: 0 })
  c.context.createMediaStreamSource(stream).connect(c.meter)
  c.meter.port.onmessage = ({ data }) => {
    if (data.level !== undefined) {
      $('level').style.width = Math.max(0, Math.min(100, 100 + 10 * Math.log10(data.level + 1e-9) * 1.6)) + '%'
    } else if (c.waiting) {
      c.waiting.heard = speakerTime(c, data.sound)
      c.waiting = null
    }
  }
}

function end() {
  if (!call) return
  const c = call
  call = null
  clearInterval(c.sampling)
  c.pc.close()
  c.context.close()
  for (const t of c.input?.getTracks() || []) t.stop()
  $('play').disabled = $('microphone').disabled = $('hangup').disabled = true
  $('call').disabled = false
  $('microphone').textContent = 'Use the microphone'
  state('not connected')
}

// play plays a recording as the microphone. The true end of its speech is known, on
// the context's clock.
async function play(id) {
  const c = call
  const u = about.utterances.find((u) => u.id === id)
  const data = await (await fetch(`recordings/${encodeURIComponent(id)}.wav`)).arrayBuffer()
  const source = new AudioBufferSourceNode(c.context, { buffer: await c.context.decodeAudioData(data) })
  source.connect(c.microphone)
  const at = c.context.currentTime + 0.05
  const request = 'page-' + crypto.randomUUID()
  c.channel.send(JSON.stringify({ type: 'utterance', utterance: id, request_id: request }))
  source.start(at)
  const asked = { request, end: at + u.end_ns / 1e9 }
  c.asked.push(asked)
  setTimeout(() => {
    asked.from = speakerTime(c, asked.end) - 1000 * (c.context.outputLatency || 0)
    wait(c, asked)
  }, Math.max(0, (asked.end - c.context.currentTime) * 1000))
}

// wait begins to listen for the answer.
async function wait(c, asked) {
  c.waiting = asked
  c.meter?.port.postMessage({ armed: true })
  asked.before = await sample(c)
}

// speakerTime tells when a sample of the AudioContext is at the speaker, on the clock
// of performance.now().
function speakerTime(c, contextTime) {
  const now = c.context.getOutputTimestamp()
  return now.performanceTime + 1000 * (contextTime - now.contextTime)
}

// askClock asks the agent a few times what its clock shows.
function askClock(c, times) {
  c.clocks = []
  for (let i = 0; i < times; i++) {
    setTimeout(() => c.channel.readyState === 'open' && c.channel.send(JSON.stringify({ type: 'clock', sent: performance.now() })), 50 * i)
  }
}

// clockTold takes the agent's answer: the quickest one tells the most.
function clockTold(c, m) {
  const now = performance.now()
  c.clocks.push({ error: (now - m.sent) / 2, offset: m.clock_ns / 1e6 - (m.sent + now) / 2 })
  c.clock = c.clocks.reduce((a, b) => (b.error < a.error ? b : a))
}

async function microphone() {
  const c = call
  if (c.input) {
    for (const t of c.input.getTracks()) t.stop()
    c.input = null
    $('microphone').textContent = 'Use the microphone'
    return
  }
  c.input = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: false, autoGainControl: false } })
  c.context.createMediaStreamSource(c.input).connect(c.microphone)
  $('microphone').textContent = 'Microphone off'
}

const inbound = ['ssrc', 'packetsReceived', 'packetsLost', 'jitterBufferDelay', 'jitterBufferTargetDelay', 'jitterBufferEmittedCount',
  'totalSamplesReceived', 'totalSamplesDuration', 'concealedSamples', 'silentConcealedSamples', 'insertedSamplesForDeceleration',
  'removedSamplesForAcceleration', 'totalAudioEnergy']
const pick = (from, keys) => Object.fromEntries(keys.filter((k) => from[k] !== undefined).map((k) => [k, from[k]]))

// sample keeps what getStats counts now, in its own words and units.
async function sample(c) {
  const n = { at_ms: performance.now() }
  for (const s of (await c.pc.getStats()).values()) {
    if (s.type === 'inbound-rtp' && s.kind === 'audio') n.inbound = pick(s, inbound)
    else if (s.type === 'media-playout') n.playout = pick(s, ['totalPlayoutDelay', 'totalSamplesCount'])
    else if (s.type === 'candidate-pair' && s.nominated) n.pair = pick(s, ['currentRoundTripTime'])
  }
  c.samples.push(n)
  c.samples.sort((a, b) => a.at_ms - b.at_ms)
  // A message may not be longer than 64 kB: who is silent for long is looked at less often.
  if (c.samples.length > 80) c.samples = c.samples.filter((_, i) => i % 2 === 0 || i === c.samples.length - 1)
  return n
}

// between works out, for the page, what happened in a turn. What was not counted, or
// began anew, is left out.
function between(a, b) {
  const d = (part, k) => (a?.[part]?.[k] !== undefined && b[part]?.[k] >= a[part][k] ? b[part][k] - a[part][k] : undefined)
  const per = (part, sum, count) => (d(part, count) > 0 && d(part, sum) !== undefined ? (1000 * d(part, sum)) / d(part, count) : undefined)
  return {
    jitter_buffer_ms: per('inbound', 'jitterBufferDelay', 'jitterBufferEmittedCount'),
    jitter_buffer_target_ms: per('inbound', 'jitterBufferTargetDelay', 'jitterBufferEmittedCount'),
    playout_device_ms: per('playout', 'totalPlayoutDelay', 'totalSamplesCount'),
    round_trip_ms: b.pair?.currentRoundTripTime === undefined ? undefined : 1000 * b.pair.currentRoundTripTime,
    packets: d('inbound', 'packetsReceived'), lost: d('inbound', 'packetsLost'),
    concealed_ms: d('inbound', 'totalSamplesReceived') > 0 ? (1000 * d('inbound', 'concealedSamples') * d('inbound', 'totalSamplesDuration')) / d('inbound', 'totalSamplesReceived') : undefined,
    energy: d('inbound', 'totalAudioEnergy'),
  }
}

function told(c, m) {
  if (m.type === 'error') fail(m.error)
  if (m.type === 'clock') clockTold(c, m)
  if (m.type === 'event') {
    event(m.event)
    const request = m.event.mark === 'turn_opened' && m.event.attrs?.request_id
    if (request && !c.asked.some((a) => a.request === request)) {
      // It comes from the microphone: the end of the speech is not known here.
      const asked = { request }
      c.asked.push(asked)
      wait(c, asked)
    }
  }
  if (m.type === 'turn') finished(c, m.turn)
}

function box(session, turn) {
  const key = `${session}.${turn}`
  let t = turns.get(key)
  if (!t) {
    const el = document.createElement('article')
    el.className = 'turn'
    el.innerHTML = '<h2><span class="name"></span><b></b><span class="id"></span></h2><div class="now"></div><div class="rows"></div>'
    $('turns').prepend(el)
    $('empty').hidden = true
    t = { el, marks: {} }
    turns.set(key, t)
    el.querySelector('.name').textContent = `Turn ${key}`
  }
  return t
}

const words = {
  speech_start: 'you speak', vad_stop: 'speech has stopped', turn_end: 'your turn is over', asr_final: 'understood', agent_start: 'the agent works',
  llm_send: 'the model is asked', llm_first_token: 'the model writes', tts_send: 'the voice is asked', tts_first_frame: 'the voice speaks',
  first_sound: 'first sound', first_filler: 'a filler', barge_in: 'you speak into it', play_end: 'the answer is over', play_stopped: 'the answer is cut off', turn_failed: 'failed',
}

// event shows a mark as it happens.
function event(e) {
  const t = box(e.session, e.turn)
  t.marks[e.mark] ??= e.t_ns
  if (e.attrs?.request_id) t.el.querySelector('.id').textContent = e.attrs.request_id
  if (t.done || !words[e.mark]) return
  const end = t.marks.speech_end ?? t.marks.vad_stop
  const since = end === undefined ? '' : ` (${ms(e.t_ns - end)} ms)`
  const now = t.el.querySelector('.now')
  now.textContent += (now.textContent ? ' → ' : '') + words[e.mark] + since
}

function row(name, from, to, whole, colour, note) {
  const el = document.createElement('div')
  el.className = 'row'
  const label = document.createElement('span')
  label.textContent = name
  const bar = document.createElement('div')
  bar.className = 'bar'
  const ns = 'http://www.w3.org/2000/svg'
  const svg = document.createElementNS(ns, 'svg')
  const rect = document.createElementNS(ns, 'rect')
  for (const [k, v] of Object.entries({ x: `${(100 * from) / whole}%`, width: `${Math.max(0.3, (100 * (to - from)) / whole)}%`, y: 0, height: '100%', fill: colour })) rect.setAttribute(k, v)
  svg.append(rect)
  bar.append(svg)
  const time = document.createElement('span')
  time.className = 'time'
  time.textContent = `${ms(to - from)} ms`
  if (note) time.title = label.title = note
  el.append(label, bar, time)
  return el
}

// finished shows what a turn came to, and tells the agent what the browser counted.
async function finished(c, turn) {
  const t = box(turn.session, turn.turn)
  t.done = true
  const asked = c.asked.find((a) => a.request === turn.request_id)
  const now = await sample(c)
  const stats = between(asked?.before ?? c.last, now)
  c.last = now
  if (asked?.heard && asked.from) stats.ear_ms = asked.heard - asked.from
  const sent = turn.marks.first_sound
  if (asked?.heard && c.clock && sent !== undefined) stats.client_ms = asked.heard + c.clock.offset - sent / 1e6
  if (c.context.outputLatency) stats.output_latency_ms = 1000 * c.context.outputLatency
  c.channel.send(JSON.stringify({
    type: 'stats', request_id: turn.request_id,
    stats: { from_ms: asked?.from, sound_ms: asked?.heard, agent_offset_ms: c.clock?.offset, agent_error_ms: c.clock?.error, samples: c.samples },
  }))
  c.samples = []
  askClock(c, 5) // clocks drift apart
  t.el.querySelector('h2 b').textContent = turn.ttfs_ns === undefined ? turn.outcome : `${ms(turn.ttfs_ns)} ms`
  const rows = t.el.querySelector('.rows')
  rows.replaceChildren()
  if (turn.segments.length) {
    const start = turn.segments[0].start_ns
    const last = turn.segments.at(-1).end_ns
    const beyond = ((stats.jitter_buffer_ms ?? 0) + (stats.playout_device_ms ?? 0)) * 1e6
    const whole = last - start + beyond
    turn.segments.forEach((s) => rows.append(row(s.stage, s.start_ns - start, s.end_ns - start, whole, colour(s.stage), s.setting)))
    let at = last - start
    for (const [name, v] of [['your jitter buffer', stats.jitter_buffer_ms], ['your sound card', stats.playout_device_ms]]) {
      if (v === undefined) continue
      rows.append(row(name, at, at + v * 1e6, whole, '#999', 'by getStats, on average over the turn'))
      at += v * 1e6
    }
  }
  const facts = [['heard after', stats.ear_ms, 'ms, from the end of your speech to your speaker'],
    ['your side', stats.client_ms, 'ms, from the first sound on the wire to your speaker'], ['buffer target', stats.jitter_buffer_target_ms, 'ms'],
    ['round trip', stats.round_trip_ms, 'ms'], ['packets lost', stats.lost, ''], ['made up', stats.concealed_ms, 'ms']]
  const table = document.createElement('table')
  for (const [name, v, unit] of facts) {
    if (v === undefined) continue
    const tr = table.insertRow()
    const th = document.createElement('th')
    th.textContent = name
    tr.append(th)
    tr.insertCell().textContent = `${Number.isInteger(v) ? v : v.toFixed(1)} ${unit}`
  }
  rows.append(table)
  results.push({ request: turn.request_id, outcome: turn.outcome, ttfs_ms: turn.ttfs_ns === undefined ? null : turn.ttfs_ns / 1e6, segments: turn.segments.length, stats })
}

const button = (id, f) => { $(id).onclick = () => Promise.resolve().then(f).catch((e) => { fail(String(e.message || e)); if (id === 'call') end() }) }
button('call', begin)
button('hangup', end)
button('play', () => play($('recording').value))
button('microphone', microphone)
load().catch((e) => fail(String(e)))
