// The official client of OpenAI against a server: node openai.mjs URL. It prints
// what it got as JSON, or fails.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "test", baseURL: process.argv[2], maxRetries: 0 });
const messages = [{ role: "user", content: "Hello, where is my order?" }];
const out = {};

const stream = await client.chat.completions.create({ model: "m", messages, stream: true, stream_options: { include_usage: true } });
out.text = "";
for await (const chunk of stream) {
  out.text += chunk.choices[0]?.delta?.content ?? "";
  if (chunk.choices[0]?.finish_reason) out.finish = chunk.choices[0].finish_reason;
  if (chunk.usage) out.usage = chunk.usage.completion_tokens;
}

const whole = await client.chat.completions.create({ model: "m", messages });
out.whole = whole.choices[0].message.content;
out.wholeUsage = whole.usage.completion_tokens;
out.requestID = whole._request_id;

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
const runner = client.chat.completions.stream({ model: "m", messages, tools });
const final = await runner.finalChatCompletion();
const call = final.choices[0].message.tool_calls[0];
out.tool = call.function.name;
out.arguments = call.function.arguments;
out.toolFinish = final.choices[0].finish_reason;

const after = await client.chat.completions.create({ model: "m", tools, messages: [...messages, final.choices[0].message, { role: "tool", tool_call_id: call.id, content: "sunny" }] });
out.afterTool = after.choices[0].message.content;

out.models = (await client.models.list()).data.map((m) => m.id);
try {
  await client.chat.completions.create({ model: "m", messages: [] });
} catch (err) {
  out.status = err.status;
}
console.log(JSON.stringify(out));
