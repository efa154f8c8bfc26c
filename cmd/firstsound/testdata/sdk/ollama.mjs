// The official client of Ollama against a server: node ollama.mjs URL.
import { Ollama } from "ollama";

const client = new Ollama({ host: process.argv[2].replace(/\/v1$/, "") });
const messages = [{ role: "user", content: "你好，我的订单在哪里？" }];
const out = { text: "" };

for await (const part of await client.chat({ model: "m", messages, stream: true })) {
  out.text += part.message.content;
  if (part.done) {
    out.finish = part.done_reason;
    out.usage = part.eval_count;
    out.prefill = part.prompt_eval_duration;
  }
}
const whole = await client.chat({ model: "m", messages });
out.whole = whole.message.content;

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
const called = await client.chat({ model: "m", messages, tools });
out.tool = called.message.tool_calls[0].function.name;
out.arguments = JSON.stringify(called.message.tool_calls[0].function.arguments);
out.models = (await client.list()).models.map((m) => m.name);
out.running = (await client.ps()).models.length;
console.log(JSON.stringify(out));
