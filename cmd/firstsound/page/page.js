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
  const c = call = { context, microphone, pc, meter: null, sent: null, asked: [], stats: null }
  pc.addTransceiver(microphone.stream.getAudioTracks()[0], { direction: 'sendrecv', streams: [microphone.stream] })
  pc.ontrack = (e) => heard(c, e)
  pc.onconnectionstatechange = () => {
    if (call !== c) return
    state(pc.connectionState)
    if (pc.connectionState === 'connected') {
      $('play').disabled = $('microphone').disabled = false
    } else if (pc.connectionState === 'failed' || pc.connectionState === 'closed') {
      end()
    }
  }
  c.channel = pc.createDataChannel('firstsound')
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
      c.waiting.sound = data.sound
    }
  }
}

function end() {
  if (!call) return
  const c = call
  call = null
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
  const asked = { request, end: at + u.end_ns / 1e9, sound: null, before: null }
  c.asked.push(asked)
  setTimeout(() => wait(c, asked), Math.max(0, (asked.end - c.context.currentTime) * 1000))
}

// wait begins to listen for the answer.
async function wait(c, asked) {
  c.waiting = asked
  c.meter?.port.postMessage({ armed: true })
  asked.before = await counters(c)
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

// counters reads what getStats counts since the call began.
async function counters(c) {
  const n = {}
  for (const s of (await c.pc.getStats()).values()) {
    if (s.type === 'inbound-rtp' && s.kind === 'audio') {
      for (const k of ['packetsReceived', 'packetsLost', 'jitter', 'jitterBufferDelay', 'jitterBufferTargetDelay', 'jitterBufferEmittedCount',
        'totalSamplesReceived', 'concealedSamples', 'silentConcealedSamples', 'concealmentEvents', 'insertedSamplesForDeceleration',
        'removedSamplesForAcceleration', 'totalAudioEnergy', 'totalSamplesDuration', 'totalProcessingDelay']) n[k] = s[k]
    } else if (s.type === 'media-playout') {
      n.totalPlayoutDelay = s.totalPlayoutDelay
      n.playoutSamples = s.totalSamplesCount
    } else if (s.type === 'candidate-pair' && s.nominated) {
      n.roundTrip = s.currentRoundTripTime
    }
  }
  return n
}

// between works out what happened in a turn. What was not counted, or began anew,
// is left out.
function between(a, b) {
  const d = (k) => (a && a[k] !== undefined && b[k] >= a[k] ? b[k] - a[k] : undefined)
  const per = (sum, count) => (d(count) > 0 && d(sum) !== undefined ? (1000 * d(sum)) / d(count) : undefined)
  return {
    jitter_buffer_ms: per('jitterBufferDelay', 'jitterBufferEmittedCount'),
    jitter_buffer_target_ms: per('jitterBufferTargetDelay', 'jitterBufferEmittedCount'),
    playout_device_ms: per('totalPlayoutDelay', 'playoutSamples'),
    round_trip_ms: b.roundTrip === undefined ? undefined : 1000 * b.roundTrip,
    packets: d('packetsReceived'), lost: d('packetsLost'), concealed_samples: d('concealedSamples'), silent_concealed_samples: d('silentConcealedSamples'),
    inserted_samples: d('insertedSamplesForDeceleration'), removed_samples: d('removedSamplesForAcceleration'), samples: d('totalSamplesReceived'),
    energy: d('totalAudioEnergy'),
  }
}

function told(c, m) {
  if (m.type === 'error') fail(m.error)
  if (m.type === 'event') event(m.event)
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
  const stats = between(asked?.before ?? c.stats, (c.stats = await counters(c)))
  if (asked?.sound) stats.ear_ms = 1000 * (asked.sound - asked.end)
  if (c.context.outputLatency) stats.output_latency_ms = 1000 * c.context.outputLatency
  c.channel.send(JSON.stringify({ type: 'stats', request_id: turn.request_id, stats }))
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
  const facts = [['heard after', stats.ear_ms, 'ms, from the end of your speech, by this page'], ['buffer target', stats.jitter_buffer_target_ms, 'ms'],
    ['round trip', stats.round_trip_ms, 'ms'], ['packets lost', stats.lost, ''], ['concealed', stats.concealed_samples, 'samples']]
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
