// The official client of Anthropic against a server: node anthropic.mjs URL.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ apiKey: "test", baseURL: process.argv[2].replace(/\/v1$/, ""), maxRetries: 0 });
const ask = { model: "m", max_tokens: 200, system: "You help.", messages: [{ role: "user", content: "Hello, where is my order?" }] };
const out = { text: "" };

const stream = client.messages.stream(ask);
stream.on("text", (t) => (out.text += t));
const final = await stream.finalMessage();
out.finish = final.stop_reason;
out.usage = final.usage.output_tokens;

const whole = await client.messages.create(ask);
out.whole = whole.content.find((b) => b.type === "text").text;

const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];
const called = await client.messages.stream({ ...ask, tools }).finalMessage();
const block = called.content.find((b) => b.type === "tool_use");
out.tool = block.name;
out.arguments = JSON.stringify(block.input);
out.toolFinish = called.stop_reason;
console.log(JSON.stringify(out));
