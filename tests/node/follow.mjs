// Follows one channel with the unmodified npm client and writes what it sees to standard output, one JSON
// object a line. Words on standard input: disconnect, connect, history, end.
// Usage: node follow.mjs ws://HOST:PORT/connection/websocket CHANNEL [SUBSCRIPTION]

import readline from "node:readline";
import { Centrifuge } from "centrifuge";
import WebSocket from "ws";

const [url, channel, subscription] = process.argv.slice(2);
const say = (event, more = {}) => process.stdout.write(JSON.stringify({ event, ...more }) + "\n");

const client = new Centrifuge(url, { websocket: WebSocket, minReconnectDelay: 20, maxReconnectDelay: 200 });
const options = { minResubscribeDelay: 20, maxResubscribeDelay: 200 };
if (subscription) options.data = { subscription };
const sub = client.newSubscription(channel, options);

sub.on("subscribed", ({ data, wasRecovering, recovered, streamPosition }) =>
  say("subscribed", { data, wasRecovering, recovered, streamPosition }));
sub.on("publication", ({ data, offset }) => say("publication", { data, offset }));
sub.on("subscribing", ({ code, reason }) => say("subscribing", { code, reason }));
sub.on("unsubscribed", ({ code, reason }) => say("unsubscribed", { code, reason }));
sub.on("error", ({ error }) => say("error", { code: error.code, message: error.message }));

const words = {
  disconnect: () => client.disconnect(),
  connect: () => client.connect(),
  history: async () => {
    const { publications, epoch, offset } = await sub.history({ limit: 10 });
    say("history", { offsets: publications.map((p) => p.offset), epoch, offset });
  },
  end: () => { client.disconnect(); process.exit(0); },
};
readline.createInterface({ input: process.stdin }).on("line", (word) => words[word]?.());

sub.subscribe();
client.connect();
