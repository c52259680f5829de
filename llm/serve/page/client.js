// The server's interface: a stream of events, and numbers.

/** The events of one request, as objects. Throws an Error with what the server says when it refuses. */
async function* streamed(body, signal) {
  const answer = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!answer.ok) throw new Error(await refusal(answer));
  const decoder = new TextDecoder();
  const reader = answer.body.getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The server ended before the answer did.");
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ")) continue;
      if (event === "data: [DONE]") return;
      const data = JSON.parse(event.slice(6));
      if (data.error) throw new Error(data.error.message);
      yield data;
    }
  }
}

async function refusal(answer) {
  try {
    const message = (await answer.json()).error.message;
    const wait = answer.headers.get("Retry-After");
    return wait ? `${message} Again in ${wait} s.` : message;
  } catch {
    return `The server answers with status ${answer.status}.`;
  }
}

/** The lines of /metrics by name; those with labels are left out. */
async function metrics() {
  const answer = await fetch("metrics");
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const found = {};
  for (const line of (await answer.text()).split("\n")) {
    const match = /^etir_llm_(\w+) (\S+)$/.exec(line);
    if (match) found[match[1]] = Number(match[2]);
  }
  return found;
}

/** What is served: name, context, defaults. */
async function served() {
  return (await (await fetch("v1/models")).json()).data[0];
}
