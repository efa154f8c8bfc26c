// Tells the level of the answer, and the moment at which it rises above a gate, on
// the clock of the AudioContext: in windows of 2 ms.
const gate = 10 ** (-50 / 10)

class Meter extends AudioWorkletProcessor {
  constructor() {
    super()
    this.armed = false
    this.run = 0
    this.quiet = true
    this.loud = 0
    this.ticks = 0
    this.port.onmessage = (e) => { this.armed = e.data.armed; this.quiet = this.run === 0 }
  }

  process(inputs) {
    const samples = inputs[0][0]
    if (!samples) return true
    let sum = 0
    for (const x of samples) sum += x * x
    const power = sum / samples.length
    this.loud = Math.max(power, this.loud * 0.9)
    if (power > gate) {
      if (this.run === 0) this.start = currentTime
      // 10 ms of sound are no click. What went on when we were told to listen is the
      // answer before.
      this.run += samples.length / sampleRate
      if (this.armed && this.quiet && this.run >= 0.01) {
        this.armed = false
        this.port.postMessage({ sound: this.start })
      }
    } else if (power < gate / 4) {
      this.run = 0
      this.quiet = true
    }
    if (++this.ticks % 16 === 0) this.port.postMessage({ level: this.loud })
    return true
  }
}
registerProcessor('meter', Meter)
