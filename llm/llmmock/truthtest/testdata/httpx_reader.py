"""Measure streaming answers the usual way: httpx, line by line, perf_counter.

The first data line with content stops the clock. Prints a line of JSON for each
request, and the CPU time of the whole as the last line.

  httpx_reader.py URL STREAMS ROUNDS SPREAD_SECONDS NAME
"""

import asyncio
import json
import resource
import sys
import time

import httpx


async def ask(client, url, request_id):
    body = {"model": "mock", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    times = []
    start = time.perf_counter_ns()
    async with client.stream("POST", url, json=body, headers={"X-Request-Id": request_id}) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line.startswith("data: [DONE]"):
                continue
            choices = json.loads(line[6:])["choices"]
            if choices and choices[0]["delta"].get("content"):
                times.append(time.perf_counter_ns() - start)
    return {"request_id": request_id, "at_ns": times}


async def worker(client, url, name, wait, rounds, out):
    await asyncio.sleep(wait)
    for i in range(rounds):
        out.append(await ask(client, url, f"{name}-{i}"))


async def main(url, streams, rounds, spread, name):
    out = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=300, trust_env=False) as client:
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.gather(*(worker(client, url, f"{name}-{i}", spread * i / streams, rounds, out) for i in range(streams)))
        after = resource.getrusage(resource.RUSAGE_SELF)
    for answer in out:
        print(json.dumps(answer))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu_ns": int(cpu * 1e9)}))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]))
