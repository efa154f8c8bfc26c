"""The workload of BenchmarkServer in SimPy 2.3 (Debian's python3-simpy): the same
scheduler, step by step, for prompts that fit one server without preemption.

Reads a JSON object from standard input: the constants of the formula in seconds
(worked out by the caller), the limits, and arrivals [seconds, prompt, output].
Writes one JSON object: how long it ran, and each request's first and last token.
"""

import json
import sys
import time
from collections import deque

from SimPy.Simulation import Process, Simulation, hold, passivate


class Request:
    __slots__ = ("prompt", "output", "computed", "out", "came", "first", "last")

    def __init__(self, prompt, output):
        self.prompt = prompt
        self.output = output
        self.computed = 0
        self.out = 0
        self.came = self.first = self.last = None


class Arrivals(Process):
    def go(self, arrivals, server):
        for at, prompt, output in arrivals:
            if at > self.sim.now():
                yield hold, self, at - self.sim.now()
            server.take(Request(prompt, output))


class Server(Process):
    def set_up(self, c):
        self.c = c
        self.waiting = deque()
        self.running = []
        self.done = []
        self.steps = 0
        self.idle = False
        self.blocks = c["blocks"]

    def take(self, request):
        request.came = self.sim.now()
        self.waiting.append(request)
        if self.idle:
            self.idle = False
            self.sim.reactivate(self)

    def grow(self, tokens_before, tokens_after):
        more = (tokens_after + 15) // 16 - (tokens_before + 15) // 16
        if more > self.blocks:
            return False
        self.blocks -= more
        return True

    def go(self):
        c = self.c
        while True:
            budget = c["budget"]
            decodes = context = 0
            chunks = []
            for r in self.running:
                if r.computed >= r.prompt:
                    if not self.grow(r.computed, r.computed + 1):
                        raise RuntimeError("out of blocks: this script does not preempt")
                    decodes += 1
                    context += r.prompt + r.out
                    budget -= 1
                else:
                    n = min(budget, r.prompt - r.computed)
                    if not self.grow(r.computed, r.computed + n):
                        raise RuntimeError("out of blocks: this script does not preempt")
                    chunks.append((r, n))
                    budget -= n
            while self.waiting and budget > 0 and len(self.running) < c["places"]:
                r = self.waiting[0]
                n = min(budget, r.prompt)
                if not self.grow(0, n):
                    break
                self.waiting.popleft()
                self.running.append(r)
                chunks.append((r, n))
                budget -= n
            if not self.running:
                self.idle = True
                yield passivate, self
                continue
            tokens, pairs = decodes, 0.0
            for r, n in chunks:
                tokens += n
                pairs += n * (r.computed + n / 2)
            sequences = decodes + len(chunks)
            products = c["token"] * tokens + c["head"] * sequences
            took = (c["weights"] ** 3 + products**3) ** (1 / 3) + c["fixed"] + c["seq"] * sequences
            took += (c["kv_mixed"] if chunks else c["kv"]) * context + c["attention"] * pairs
            yield hold, self, took
            self.steps += 1
            now = self.sim.now()
            growing = dict((id(r), n) for r, n in chunks)
            left = []
            for r in self.running:
                r.computed += growing.get(id(r), 1)
                if r.computed >= r.prompt:
                    r.out += 1
                    if r.out == 1:
                        r.first = now
                    if r.out == r.output:
                        r.last = now
                        self.blocks += (r.computed + 15) // 16
                        self.done.append(r)
                        continue
                left.append(r)
            self.running = left


def main():
    c = json.load(sys.stdin)
    sim = Simulation()
    sim.initialize()
    server = Server(sim=sim)
    server.set_up(c)
    arrivals = Arrivals(sim=sim)
    sim.activate(server, server.go())
    sim.activate(arrivals, arrivals.go(c["arrivals"], server))
    began = time.perf_counter()
    sim.simulate(until=1e12)
    took = time.perf_counter() - began
    done = sorted(server.done, key=lambda r: r.came)
    json.dump({"seconds": took, "steps": server.steps, "requests": [[r.came, r.first, r.last] for r in done]}, sys.stdout)


main()
