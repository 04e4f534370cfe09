// The demo's page: two event streams, a list of matches, and the odds of the selected one.
"use strict";

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 759px)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Writes only differences: the list is redrawn often, and an unchanged node costs the browser nothing.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// --- a view's rows, kept up to date by an EventSource --------------------------------------------------

// `rows` is the state after the last event. The browser reconnects and sends the id of the last event;
// the server then either continues from there or sends a new snapshot, which replaces all rows.
class Rows {
  constructor(url, onChange, onState) {
    this.url = url;
    this.rows = new Map();
    this.stale = null;
    this.state = "connecting";
    this.onChange = onChange;
    this.onState = onState;
    this.pages = null;
    this.delay = 500;
    this.open();
  }

  open() {
    const source = new EventSource(this.url);
    this.source = source;
    source.addEventListener("snapshot", (e) => this.snapshot(JSON.parse(e.data)));
    source.addEventListener("ready", () => this.commit());
    source.addEventListener("change", (e) => this.change(JSON.parse(e.data)));
    source.addEventListener("stale", (e) => this.staleness(JSON.parse(e.data)));
    source.onopen = () => this.turn("live");
    source.onerror = () => {
      this.pages = null; // an incomplete snapshot is dropped
      this.turn("reconnecting");
      // A rejection (because the view is being rebuilt, for example) ends an EventSource: open a new one.
      if (source.readyState === EventSource.CLOSED) {
        this.timer = setTimeout(() => this.open(), this.delay);
        this.delay = Math.min(this.delay * 2, 8000);
      }
    };
  }

  close() {
    clearTimeout(this.timer);
    this.source.close();
  }

  turn(state) {
    if (state === "live") this.delay = 500;
    this.state = state;
    this.onState();
  }

  snapshot(data) {
    this.pages = (this.pages || []).concat(data.rows);
    if (data.stale !== undefined) this.stale = data.stale ? this.stale || {} : null;
    if (!data.more) this.commit();
  }

  commit() {
    if (this.pages) {
      this.rows = new Map(this.pages);
      this.pages = null;
      this.onChange({ op: "snapshot" });
    }
    this.turn("live");
  }

  change(data) {
    const before = this.rows.get(data.key);
    if (data.op === "add") this.rows.set(data.key, data.row);
    else if (data.op === "remove") this.rows.delete(data.key);
    else if (before) {
      const after = { ...before, ...data.changed };
      for (const field of data.gone || []) delete after[field];
      this.rows.set(data.key, after);
    }
    this.onChange(data, before, this.rows.get(data.key));
  }

  staleness(data) {
    this.stale = data.op === "stale" ? data : null;
    this.onState();
  }
}

// --- how long a change took, and how many there are ----------------------------------------------------

const meter = { delays: [], arrivals: [] };

function measure(time) {
  const now = Date.now();
  meter.arrivals.push(now);
  if (!time) return null;
  // The clock of another machine may be ahead: show no negative delay.
  const delay = Math.max(0, now - time);
  meter.delays.push(delay);
  if (meter.delays.length > 200) meter.delays.shift();
  return delay;
}

const ms = (n) => (n < 10_000 ? `${Math.round(n)} ms` : `${Math.round(n / 1000)} s`);

function drawMeters() {
  const now = Date.now();
  meter.arrivals = meter.arrivals.filter((t) => now - t < 1000);
  setText($("rate"), String(meter.arrivals.length));
  if (!meter.delays.length) return;
  const sorted = [...meter.delays].sort((a, b) => a - b);
  setText($("p50"), ms(sorted[sorted.length >> 1]));
  setText($("last"), ms(meter.delays[meter.delays.length - 1]));
  $("pulse").firstElementChild.setAttribute("d", line(meter.delays.slice(-60), 120, 24, 0));
}

// A path through the values, left to right, over the whole box; `floor` is the value at the bottom.
function line(values, width, height, floor = Math.min(...values)) {
  if (values.length < 2) return "";
  const span = Math.max(...values) - floor || 1;
  const x = width / (values.length - 1);
  return values
    .map((v, i) => `${i ? "L" : "M"}${(i * x).toFixed(1)} ${(height - 2 - ((v - floor) / span) * (height - 4)).toFixed(1)}`)
    .join("");
}

// --- drawing: at most once a frame, for any number of changes ------------------------------------------

const dirty = new Set();

function draw(what) {
  if (!dirty.size) requestAnimationFrame(flush);
  dirty.add(what);
}

function flush() {
  const todo = [...dirty];
  dirty.clear();
  for (const what of todo) what();
}

// --- the list of matches -------------------------------------------------------------------------------

let selected = null;
const cards = new Map();
const columns = (match) => (match.status === "upcoming" ? [] : match.score.split(" ").map((s) => s.split("-")));

function clock(match) {
  if (match.status === "upcoming") return new Date(match.starts).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (match.status === "finished") return "FT";
  if (match.period === "Half-time") return "HT";
  return match.sport === "football" ? `${match.minute}′` : match.period.replace("Set ", "S").replace("Overtime", "OT");
}

function makeCard(id) {
  const button = make("button", "match");
  button.type = "button";
  button.dataset.match = id;
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("aria-hidden", "true");
  icon.append(document.createElementNS("http://www.w3.org/2000/svg", "use"));
  const when = make("span", "when");
  const names = make("span", "names");
  names.append(make("span"), make("span"), make("small"));
  const score = make("span", "score");
  button.append(icon, when, names, score);
  button.addEventListener("click", () => select(id));
  const item = make("li");
  item.append(button);
  return { item, button, icon, when, names, score };
}

function fillScore(node, sets, className = "set") {
  const text = sets.map((s) => s.join("-")).join(" ");
  if (node.dataset.score === text) return;
  const goal = node.dataset.score !== undefined;
  node.dataset.score = text;
  node.replaceChildren(
    ...sets.map(([home, away]) => {
      const set = make("span", className);
      set.append(make("span", "", home), make("span", "", away));
      return set;
    }),
  );
  if (goal) flash(node, "goal");
}

function drawList() {
  const groups = { live: [], upcoming: [], finished: [] };
  for (const [id, match] of matches.rows) (groups[match.status] || groups.finished).push([id, match]);
  for (const [id, card] of cards)
    if (!matches.rows.has(id)) {
      card.item.remove();
      cards.delete(id);
    }
  for (const [status, found] of Object.entries(groups)) {
    const section = document.querySelector(`[data-group="${status}"]`);
    found.sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const shown = status === "finished" ? found.slice(-8).reverse() : found;
    section.hidden = !shown.length;
    setText(section.querySelector("h2 span"), String(found.length));
    const list = section.querySelector("ul");
    const wanted = shown.map(([id, match]) => drawCard(id, match));
    // Moving a node takes the focus from it, so only nodes in a wrong position are moved.
    wanted.forEach((item, i) => {
      if (list.children[i] !== item) list.insertBefore(item, list.children[i] || null);
    });
    while (list.children.length > wanted.length) list.lastElementChild.remove();
  }
  $("list-empty").hidden = matches.rows.size > 0;
}

function drawCard(id, match) {
  let card = cards.get(id);
  if (!card) cards.set(id, (card = makeCard(id)));
  card.button.dataset.status = match.status;
  card.button.setAttribute("aria-current", id === selected ? "true" : "false");
  card.icon.firstElementChild.setAttribute("href", `#i-${match.sport}`);
  setText(card.when, clock(match));
  const [home, away, league] = card.names.children;
  setText(home, match.home);
  setText(away, match.away);
  setText(league, match.league);
  fillScore(card.score, columns(match).slice(-3));
  return card.item;
}

$("list").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (step === undefined) return;
  const buttons = [...$("list").querySelectorAll("section:not([hidden]) button")];
  if (!buttons.length) return;
  const at = buttons.indexOf(document.activeElement) + step;
  buttons[Math.max(0, Math.min(buttons.length - 1, at))].focus();
  event.preventDefault();
});

// --- the selected match ----------------------------------------------------------------------------------

let odds = null;
const prices = new Map();

function select(id, remember = true) {
  if (id === selected && odds) return show("detail");
  if (odds) odds.close();
  odds = null;
  selected = id;
  prices.clear();
  $("markets").replaceChildren();
  $("tape").replaceChildren();
  if (remember) history.replaceState(null, "", id ? `#match=${encodeURIComponent(id)}` : "#");
  if (id) {
    const where = encodeURIComponent(`match_id = '${id.replaceAll("'", "''")}'`);
    odds = new Rows(`/v1/views/odds/events?where=${where}`, onOdds, drawState);
    show("detail");
  }
  draw(drawList);
  draw(drawMatch);
}

function show(view) {
  document.body.dataset.view = view;
  if (!narrow.matches) return;
  scrollTo(0, 0);
  if (view === "detail") $("detail").focus({ preventScroll: true });
  else cards.get(selected)?.button.focus();
}

$("back").addEventListener("click", () => show("list"));
document.querySelector(".brand").addEventListener("click", (event) => {
  event.preventDefault();
  show("list");
});

function drawMatch() {
  const match = selected ? matches.rows.get(selected) : null;
  $("match").hidden = !match;
  $("detail-empty").hidden = Boolean(match);
  setText($("detail-empty"), selected && matches.rows.size ? "This match is no longer listed. Select another." : "Select a match to see its odds move.");
  if (!match) return;
  $("match").querySelector(".where use").setAttribute("href", `#i-${match.sport}`);
  setText($("m-league"), match.league);
  const live = match.status === "live";
  setText($("m-clock"), live ? [match.period, match.period === "Half-time" ? "" : `${match.minute}′`].filter(Boolean).join(" · ") : match.status === "upcoming" ? `Starts ${clock(match)}` : match.period || "Finished");
  $("m-clock").dataset.status = match.status;
  const sides = $("m-sides");
  if (!sides.children.length) sides.append(make("span", "side"), make("span", "score"), make("span", "side"));
  setText(sides.children[0], match.home);
  setText(sides.children[2], match.away);
  fillScore(sides.children[1], columns(match), "set wide");
}

function onOdds(change, before, after) {
  if (change.op === "snapshot") {
    $("markets").replaceChildren();
    prices.clear();
    for (const [key, row] of odds.rows) drawPrice(key, row);
    return;
  }
  const delay = measure(change.time);
  if (!after) {
    prices.get(change.key)?.cell.remove();
    prices.delete(change.key);
    return;
  }
  drawPrice(change.key, after, before);
  note(after, before, change.time, delay);
}

// The rows of a snapshot are not ordered; these are the usual orders.
const MARKETS = ["1x2", "winner", "ou25", "hcap", "points", "btts", "set1", "set2", "sets25"];
const OUTCOMES = ["home", "over", "yes", "draw", "under", "no", "away"];
const place = (market) => MARKETS.indexOf(market) + 1 || MARKETS.length + 1;
const rank = (key) => OUTCOMES.indexOf(key.split(":")[2]);

// Row keys are match:market:selection, and the middle one identifies the market.
function marketOf(key, row) {
  const id = key.split(":")[1] || row.market;
  let section = document.querySelector(`.market[data-market="${CSS.escape(id)}"]`);
  if (!section) {
    section = make("section", "card market");
    section.dataset.market = id;
    const head = make("h2", "", row.market);
    head.append(make("span", "badge"));
    section.append(head, make("div", "selections"));
    $("markets").insertBefore(section, [...$("markets").children].find((other) => place(other.dataset.market) > place(id)) || null);
  }
  return section;
}

function makePrice(key, row) {
  const cell = make("div", "selection");
  cell.dataset.market = key;
  const label = make("span", "label", row.selection);
  const graph = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  graph.setAttribute("viewBox", "0 0 100 20");
  graph.setAttribute("preserveAspectRatio", "none");
  graph.setAttribute("aria-hidden", "true");
  graph.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  const price = make("span", "price");
  price.append(make("i", "arrow"), make("b"));
  cell.append(label, graph, price);
  const list = marketOf(key, row).querySelector(".selections");
  list.insertBefore(cell, [...list.children].find((other) => rank(other.dataset.market) > rank(key)) || null);
  return { cell, price, graph, path: [] };
}

function drawPrice(key, row, before) {
  let shown = prices.get(key);
  if (!shown) prices.set(key, (shown = makePrice(key, row)));
  const { cell, price, graph, path } = shown;
  setText(price.lastElementChild, row.price.toFixed(2));
  cell.dataset.status = row.status;
  if (row.result) cell.dataset.result = row.result;
  if (path[path.length - 1] !== row.price) path.push(row.price);
  if (path.length > 40) path.shift();
  const section = cell.closest(".market");
  section.dataset.status = row.status;
  setText(section.querySelector(".badge"), row.status === "open" ? "" : row.status);
  if (before && before.price !== row.price) {
    const way = row.price > before.price ? "up" : "down";
    cell.dataset.way = way;
    price.setAttribute("aria-label", `${row.price.toFixed(2)}, ${way}`);
    flash(price, way);
  }
  draw(shown.redraw ||= () => graph.firstElementChild.setAttribute("d", line(path, 100, 20)));
}

function flash(node, kind) {
  if (calm.matches) return;
  const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${kind}-flash`);
  node.animate([{ backgroundColor: colour }, { backgroundColor: "transparent" }], { duration: kind === "goal" ? 2500 : 900, easing: "ease-out" });
}

const TAPE = 8;

function note(row, before, time, delay) {
  if (!before || (before.price === row.price && before.status === row.status)) return;
  const item = make("li");
  const moved = before.price !== row.price;
  const way = !moved ? "" : row.price > before.price ? "up" : "down";
  const what = make("span", "what", row.selection);
  what.append(make("small", "", row.market));
  const news = make("span", `news ${way}`, moved ? `${before.price.toFixed(2)} → ${row.price.toFixed(2)}` : row.status);
  const at = new Date(time || Date.now());
  item.append(make("time", "", at.toLocaleTimeString("en-GB") + "." + String(at.getMilliseconds()).padStart(3, "0")), what, news, make("span", "took", delay === null ? "" : ms(delay)));
  $("tape").prepend(item);
  while ($("tape").children.length > TAPE) $("tape").lastElementChild.remove();
}

// --- the state of the connection -------------------------------------------------------------------------

function drawState() {
  const streams = [matches, odds].filter(Boolean);
  const state = streams.find((s) => s.state === "reconnecting") ? "reconnecting" : streams.find((s) => s.state === "connecting") ? "connecting" : "live";
  $("state").dataset.state = state;
  setText($("state"), { live: "Live", connecting: "Connecting", reconnecting: "Reconnecting" }[state]);
  const stale = streams.map((s) => s.stale).find(Boolean);
  $("stale").hidden = !stale;
  document.body.classList.toggle("is-stale", Boolean(stale) || state === "reconnecting");
  if (stale) {
    const since = stale.since ? ` since ${new Date(stale.since).toLocaleTimeString("en-GB")}` : "";
    setText($("stale"), `No new records from the source${since}. This data may be out of date.`);
  }
}

let matches = null; // declared before the first event can reach it

// The lower the better: which match to show before one is selected. Close matches move most.
function interest(match) {
  const [home, away] = match.score.split(" ").at(-1).split("-");
  return (match.sport === "football" ? 0 : 1000) + Math.abs(home - away) * 100 + match.minute;
}

function onMatch(change) {
  if (change.op !== "snapshot") measure(change.time);
  draw(drawList);
  draw(drawMatch);
  if (selected || narrow.matches || change.op !== "snapshot") return;
  const live = [...matches.rows].filter(([, match]) => match.status === "live").sort(([a, x], [b, y]) => interest(x) - interest(y) || a.localeCompare(b));
  if (live.length) select(live[0][0], false);
}

matches = new Rows("/v1/views/matches/events", onMatch, () => matches && drawState());
const wanted = /^#match=(.+)$/.exec(location.hash);
if (wanted) select(decodeURIComponent(wanted[1]), false);
setInterval(drawMeters, 250);
drawState();
