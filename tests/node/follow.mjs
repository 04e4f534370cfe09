// Follows one channel with the unmodified npm client and writes what it sees to standard output, one JSON
// object a line. Words on standard input: disconnect, connect, unsubscribe, subscribe, history, newest,
// rpc METHOD JSON, publish CHANNEL JSON, token TOKEN, end. With --tokens every token is asked for by a line.
// Usage: node follow.mjs ws://HOST:PORT/connection/websocket CHANNEL [--protobuf] [--subscription ID] [--tokens]

import readline from "node:readline";
import WebSocket from "ws";

const { positionals, values } = (await import("node:util")).parseArgs({
  allowPositionals: true,
  options: { protobuf: { type: "boolean" }, subscription: { type: "string" }, tokens: { type: "boolean" } },
});
const [url, channel] = positionals;
const { Centrifuge } = await import(values.protobuf ? "centrifuge/build/protobuf" : "centrifuge");
const say = (event, more = {}) => process.stdout.write(JSON.stringify({ event, ...more }) + "\n");

// In Protobuf payloads are bytes, which hold JSON here (none where there is no data),
const packed = (value) => (values.protobuf ? new TextEncoder().encode(JSON.stringify(value)) : value);
const plain = (data) => {
  if (!values.protobuf) return data;
  return data?.length ? JSON.parse(new TextDecoder().decode(data)) : undefined;
};
// and 64-bit numbers are objects.
const number = (offset) => (offset === undefined ? offset : Number(offset));

const awaited = [];
const getToken = (of) => () => new Promise((resolve) => { awaited.push(resolve); say("token", { of }); });
const client = new Centrifuge(url, {
  websocket: WebSocket,
  minReconnectDelay: 20,
  maxReconnectDelay: 200,
  ...(values.tokens ? { getToken: getToken("connection") } : {}),
});
const options = { minResubscribeDelay: 20, maxResubscribeDelay: 200 };
if (values.tokens) options.getToken = getToken("subscription");
if (values.subscription) options.data = packed({ subscription: values.subscription });
const sub = client.newSubscription(channel, options);

client.on("disconnected", ({ code, reason }) => say("disconnected", { code, reason }));
sub.on("subscribed", ({ data, wasRecovering, recovered, streamPosition }) =>
  say("subscribed", { data: plain(data), wasRecovering, recovered, streamPosition }));
sub.on("publication", ({ data, offset }) => say("publication", { data: plain(data), offset: number(offset) }));
sub.on("subscribing", ({ code, reason }) => say("subscribing", { code, reason }));
sub.on("unsubscribed", ({ code, reason }) => say("unsubscribed", { code, reason }));
sub.on("error", ({ error }) => say("error", { code: error.code, message: error.message }));

const read = async (asked) => {
  const { publications, epoch, offset } = await sub.history(asked);
  say("history", {
    offsets: publications.map((p) => number(p.offset)),
    data: publications.map((p) => plain(p.data)),
    epoch,
    offset: number(offset),
  });
};
const words = {
  disconnect: () => client.disconnect(),
  connect: () => client.connect(),
  unsubscribe: () => sub.unsubscribe(),
  subscribe: () => sub.subscribe(),
  history: () => read({ limit: 10 }),
  newest: () => read({ limit: 2, reverse: true }),
  rpc: async (method, json) => say("rpc", { data: plain((await client.rpc(method, packed(JSON.parse(json)))).data) }),
  publish: async (to, json) => { await client.publish(to, packed(JSON.parse(json))); say("published"); },
  token: (token) => awaited.shift()(token),
  end: () => { client.disconnect(); process.exit(0); },
};
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [word, first, ...rest] = line.split(" ");
  Promise.resolve(words[word]?.(first, rest.join(" "))).catch(({ code, message }) => say("failed", { code, message }));
});

sub.subscribe();
client.connect();
