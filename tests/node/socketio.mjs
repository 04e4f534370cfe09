// Speaks to the gateway with the unmodified npm client and writes what it sees to standard output, one JSON
// object a line. A line on standard input is EVENT JSON (emitted with an acknowledgement), or: raw TEXT (an
// engine.io message), pause, resume (of the socket's reading), disconnect, connect, end.
// Usage: node socketio.mjs http://HOST:PORT [--websocket | --polling] [--token TOKEN] [--origin ORIGIN]

import readline from "node:readline";
import { parseArgs } from "node:util";
import { io } from "socket.io-client";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    websocket: { type: "boolean" },
    polling: { type: "boolean" },
    token: { type: "string" },
    origin: { type: "string" },
  },
});
const transports = values.websocket ? ["websocket"] : values.polling ? ["polling"] : ["polling", "websocket"];
const say = (event, more = {}) => process.stdout.write(JSON.stringify({ event, ...more }) + "\n");

const socket = io(positionals[0], {
  transports,
  auth: values.token ? { token: values.token } : undefined,
  extraHeaders: values.origin ? { Origin: values.origin } : undefined,
  reconnectionDelay: 20,
  reconnectionDelayMax: 200,
});
const engine = () => socket.io.engine;

// An upgrade may be over before the gateway has let us in.
socket.io.on("open", () => {
  say("open", { transport: engine().transport.name });
  engine().once("upgrade", ({ name }) => say("upgrade", { transport: name }));
});
socket.on("connect", () => say("connect"));
socket.on("connect_error", ({ message, data }) => say("connect_error", { message, data }));
socket.on("disconnect", (reason) => say("disconnect", { reason }));
socket.onAny((event, body) => say(event, { body }));

const words = {
  raw: (text) => engine().write(text),
  pause: () => engine().transport.ws.pause(),
  resume: () => engine().transport.ws.resume(),
  disconnect: () => socket.disconnect(),
  connect: () => socket.connect(),
  end: () => { socket.disconnect(); process.exit(0); },
};
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [word, ...rest] = line.split(" ");
  const text = rest.join(" ");
  if (words[word]) words[word](text);
  else socket.emit(word, ...(text ? [JSON.parse(text)] : []), (body) => say("ack", { to: word, body }));
});
