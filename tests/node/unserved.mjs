// Asks, with the unmodified npm client, for subscriptions that a publisher does not serve, and writes to standard
// output how each ends, one JSON object a line; then it ends.
// Usage: node unserved.mjs ws://HOST:PORT/connection/websocket CHANNEL [--protobuf]

import WebSocket from "ws";

const { positionals, values } = (await import("node:util")).parseArgs({
  allowPositionals: true,
  options: { protobuf: { type: "boolean" } },
});
const [url, channel] = positionals;
const { Centrifuge } = await import(values.protobuf ? "centrifuge/build/protobuf" : "centrifuge");
const say = (what, more = {}) => process.stdout.write(JSON.stringify({ what, ...more }) + "\n");

const kinds = {
  map: (client) => client.newMapSubscription(channel),
  "shared poll": (client) =>
    client.newSharedPollSubscription(channel, { getSignature: async () => ({ batches: [] }) }),
  "tags filter": (client) => client.newSubscription(channel, { tagsFilter: { key: "sport", cmp: "eq", val: "football" } }),
  "join and leave": (client) => client.newSubscription(channel, { joinLeave: true }),
};
for (const [what, make] of Object.entries(kinds)) {
  const client = new Centrifuge(url, { websocket: WebSocket });
  const sub = make(client);
  const ended = new Promise((resolve) => {
    for (const event of ["subscribed", "sync", "update", "publication"])
      sub.on(event, () => { say(what, { event }); resolve(); });
    sub.on("unsubscribed", ({ code, reason }) => { say(what, { event: "unsubscribed", code, reason }); resolve(); });
  });
  sub.subscribe();
  client.connect();
  await ended;
  client.disconnect();
}
process.exit(0);
