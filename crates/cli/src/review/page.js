// The page of `synqlite review`. All that it shows comes from the program that serves it, and is set as text.
//
// Choices are kept here, by record, with the sum of what was seen of it, until they are written: so taking one
// back asks nobody, and what others do meanwhile is noticed at the next look.
"use strict";

const at = id => document.getElementById(id);
const make = (tag, text, style) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (style) made.className = style;
  return made;
};
const several = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

// So many columns are shown of a row at once; the others on demand.
const NARROW = 12;
const PERIOD = 2000;
const page = String(performance.timeOrigin) + String(Math.random());
const keep = "choices of " + location.pathname;

let version = "";
let records = [];
let tables = [];
let open = 0;
let current = null;
let place = 0;
let wide = false;
let busy = false;
let over = false;
// How often in turn nobody has answered.
let unheard = 0;
// By id: { verb, seen, refused, opened }.
const choices = new Map();
// What undo takes back: for each step, records with what was chosen before.
const steps = [];

const byId = id => records.find(r => r.id === id);
const called = r => `${tables[r.table].name}, ${r.row}`;
const becomes = o => `${o.table}, ${o.row} ${o.becomes}`;
const labelOf = (r, verb) => r.choices.find(c => c.verb === verb).label;

// What happened, for those who see and those who hear; `lasting`: also for later.
function say(text, lasting) {
  at("say").textContent = text;
  if (!lasting) return;
  at("log").prepend(make("li", text));
  at("many").textContent = at("log").children.length;
  at("news").hidden = false;
}

function stop(text) {
  over = true;
  at("main").hidden = at("bar").hidden = at("intro").hidden = true;
  at("stopped").textContent = text;
  at("stopped").hidden = false;
  document.title = "Conflicts - SynQLite";
}

async function ask(what, body) {
  const options = body === undefined ? { method: "GET" }
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(what, options);
  } catch {
    unheard += 1;
    if (unheard < 3) throw new Error("the program that serves this page does not answer.");
    const lost = choices.size ? ` Not written: ${several(choices.size, "choice")}.` : "";
    stop(`The program that serves this page has ended.${lost} Run synqlite review again.`);
    throw new Error("it has ended");
  }
  unheard = 0;
  let told;
  try {
    told = await answer.json();
  } catch {
    throw new Error(`the answer is none that this page knows (${answer.status})`);
  }
  if (answer.ok) return told;
  const { code, message, hint } = told.error;
  const text = message + "." + (hint ? " " + hint + "." : "");
  if (answer.status === 403) stop(text.charAt(0).toUpperCase() + text.slice(1));
  throw Object.assign(new Error(text), { code });
}

// ---- what is listed

function listed() {
  const table = at("table").value;
  const words = at("find").value.trim().toLowerCase();
  const has = r => [tables[r.table].name, r.row, r.headline, r.story, r.id,
    ...r.columns.flatMap(c => c.cells.map(cell => cell ? cell.text : ""))]
    .some(text => text.toLowerCase().includes(words));
  return records.filter(r => (table === "" || r.table === Number(table)) && (!words || has(r)));
}

// `chosen`: the name of the table that is shown alone. Its number may be another than before.
function showTables(chosen) {
  const option = (value, text) => Object.assign(make("option", text), { value });
  at("table").replaceChildren(option("", `all (${open})`),
    ...tables.map((t, n) => option(String(n), `${t.name} (${t.open})`)));
  const n = tables.findIndex(t => t.name === chosen);
  at("table").value = n < 0 ? "" : String(n);
}

function showList() {
  const all = listed();
  const here = all.findIndex(r => r.id === current);
  // What took the place of one that is gone is the next to look at.
  place = here >= 0 ? here : Math.max(0, Math.min(place, all.length - 1));
  current = all[place]?.id ?? null;
  at("list").replaceChildren(...all.map(r => {
    const item = make("li");
    item.id = "r" + r.id;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(r.id === current));
    item.append(make("b", called(r)), make("span", r.headline, "soft"));
    const choice = choices.get(r.id);
    if (choice) {
      item.append(make("span", "✓ " + labelOf(r, choice.verb), "choice"));
      if (choice.refused) item.append(make("span", "✗ is refused", "bad"));
      else if (choice.opened.length) item.append(make("span", "! opens another", "warn"));
    } else if (r.note) {
      item.append(make("span", r.note, "warn"));
    }
    item.addEventListener("click", () => select(r.id));
    return item;
  }));
  const shown = current && at("r" + current);
  if (shown) {
    at("list").setAttribute("aria-activedescendant", shown.id);
    shown.scrollIntoView({ block: "nearest" });
  } else {
    at("list").removeAttribute("aria-activedescendant");
  }
  at("none").hidden = all.length > 0;
  at("none").textContent = records.length ? "Nothing here: choose another table, or another text to find."
    : "All conflicts are settled.";
  if (records.length < open) {
    at("none").hidden = false;
    at("none").textContent = `The first ${records.length.toLocaleString("en")} of ${open.toLocaleString("en")} ` +
      "are listed; the others follow when these are settled.";
  }
}

// ---- one record

const when = ms => new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

function head(v) {
  const cell = make("th");
  cell.setAttribute("role", "columnheader");
  const title = make("b", v.title);
  if (v.role !== "before") title.append(" ", make("span", v.role === "mine" ? "yours" : "theirs", "tag " + v.role));
  cell.append(title);
  if (v.note) cell.append(make("small", v.note));
  for (const w of v.by) {
    const what = v.by.length > 1 ? w.columns.join(", ") + ": " : "";
    const line = make("small", `${what}written ${w.here ? "here" : "at " + w.site}, ${when(w.at)}`);
    line.title = `${new Date(w.at).toISOString()} at ${w.site}`;
    cell.append(line);
  }
  return cell;
}

function cellOf(cell, title) {
  const made = make("td");
  made.setAttribute("role", "cell");
  made.dataset.title = title;
  if (!cell) return made;
  if (cell.kind === "null") made.append(make("i", "NULL"));
  else if (cell.kind === "empty") made.append(make("i", "empty text"));
  else made.append(cell.text);
  if (cell.cut) made.append(make("small", `shortened; ${cell.cut} in all`));
  return made;
}

function showCells(r) {
  const row = make("tr");
  row.setAttribute("role", "row");
  row.append(make("th"), ...r.versions.map(head));
  row.firstChild.setAttribute("role", "columnheader");
  row.firstChild.append(make("span", "Column", "soft"));
  at("cells").tHead.replaceChildren(row);
  const marked = c => c.contested || (c.differs && r.versions.length > 1);
  const narrow = !wide && r.columns.length > NARROW;
  const shown = narrow ? r.columns.filter((c, n) => marked(c) || n < 4) : r.columns;
  at("cells").tBodies[0].replaceChildren(...shown.map(c => {
    const line = make("tr", undefined, c.contested ? "contested" : "");
    line.setAttribute("role", "row");
    const name = make("th", c.name);
    name.setAttribute("role", "rowheader");
    if (c.contested) name.append(make("small", "in conflict"));
    else if (c.differs) name.append(make("small", "differs"));
    line.append(name, ...c.cells.map((cell, n) => cellOf(cell, r.versions[n].title)));
    return line;
  }));
  const left = r.columns.length - shown.length;
  at("wider").hidden = left === 0 && !(wide && r.columns.length > NARROW);
  at("wider").textContent = left ? `Show ${several(left, "more column")} (c)` : "Show fewer columns (c)";
  if (r.more && !left) {
    at("wider").hidden = false;
    at("wider").textContent += ` ${several(r.more, "further column")} are left out.`;
  }
}

// Others of its kind in the list, of which the same may be said.
function like(r, verb) {
  return listed().filter(o => o.id !== r.id && o.kind === r.kind && !choices.has(o.id)
    && o.choices.some(c => c.verb === verb));
}

function showChoices(r) {
  const focused = [...at("choices").querySelectorAll("button")].indexOf(document.activeElement);
  const chosen = choices.get(r.id);
  at("choices").replaceChildren(...r.choices.map((c, n) => {
    const box = make("div");
    const button = make("button", undefined, "choice");
    button.type = "button";
    button.setAttribute("aria-pressed", String(chosen?.verb === c.verb));
    button.setAttribute("aria-keyshortcuts", `${n + 1} ${c.verb[0]}`);
    const title = make("b");
    title.append(make("kbd", String(n + 1)), " ", make("kbd", c.verb[0]), " " + c.label);
    button.append(title, make("span", c.does));
    button.addEventListener("click", () => choose([r], c.verb));
    box.append(button);
    if (chosen?.verb === c.verb) {
      if (chosen.refused) box.append(make("p", `✗ This is refused: ${chosen.refused}.`, "bad"));
      for (const o of chosen.opened) {
        box.append(make("p", `! This opens another conflict: ${becomes(o)}.`, "warn"));
      }
    }
    const others = like(r, c.verb);
    if (others.length) {
      const all = make("button", `The same for all ${others.length + 1} of this kind in the list `, "all");
      all.type = "button";
      all.append(make("kbd", `Shift ${n + 1}`));
      all.addEventListener("click", () => choose([r, ...others], c.verb));
      box.append(all);
    }
    return box;
  }));
  if (focused >= 0) at("choices").querySelectorAll("button")[focused]?.focus();
}

function showRecord() {
  const r = byId(current);
  at("record").hidden = !r;
  if (!r) return;
  at("where").textContent = `Table ${tables[r.table].name}, ${r.row}, record ${r.id.slice(0, 8)}`;
  at("headline").textContent = r.headline;
  at("story").textContent = r.story;
  at("advice").textContent = r.advice ?? "";
  showCells(r);
  showChoices(r);
}

function show() {
  showList();
  showRecord();
  const left = open - choices.size;
  at("sums").textContent = `${choices.size.toLocaleString("en")} decided, ${left.toLocaleString("en")} left`;
  at("count").textContent = choices.size ? `Write ${several(choices.size, "choice")}` : "Write";
  at("write").disabled = busy || choices.size === 0;
  at("undo").disabled = busy || steps.length === 0;
  document.title = `${left} left - Conflicts`;
  const kept = [...choices].map(([id, c]) => ({ id, verb: c.verb, seen: c.seen }));
  sessionStorage.setItem(keep, JSON.stringify(kept));
}

function select(id) {
  current = id;
  show();
  at("record").scrollTop = 0;
}

function move(by) {
  const all = listed();
  const n = all.findIndex(r => r.id === current);
  if (all.length) select(all[Math.max(0, Math.min(all.length - 1, n + by))].id);
}

// The next that is not decided, from here on, or from the top.
function next() {
  const all = listed();
  const n = all.findIndex(r => r.id === current);
  const found = [...all.slice(n + 1), ...all.slice(0, n)].find(r => !choices.has(r.id));
  if (found) select(found.id);
  return found;
}

// ---- choosing

function choose(which, verb) {
  if (busy || !which.length) return;
  steps.push(which.map(r => [r.id, choices.get(r.id)]));
  const batch = which.map(r => {
    choices.set(r.id, { verb, seen: r.seen, refused: null, opened: [] });
    r.note = "";
    return { id: r.id, verb, seen: r.seen };
  });
  const told = which.length === 1 ? `${called(which[0])}: ${labelOf(which[0], verb)}.`
    : `${several(which.length, "conflict")}: the same choice.`;
  const found = next();
  if (!found) show();
  const left = open - choices.size;
  const then = found ? `Next: ${called(found)}: ${found.headline}.`
    : left ? "The others are not in this list." : "All are decided: w writes them.";
  say(`${told} ${choices.size} decided, ${left} left. ${then}`);
  check(batch);
}

function clear() {
  if (busy || !choices.has(current)) return;
  steps.push([[current, choices.get(current)]]);
  choices.delete(current);
  show();
  say(`Nothing is decided on ${called(byId(current))}.`);
}

function undo() {
  if (busy) return;
  const step = steps.pop();
  if (!step) {
    say("There is nothing to take back.");
    return;
  }
  for (const [id, before] of step) {
    const r = byId(id);
    if (before && r && before.seen === r.seen) choices.set(id, before);
    else choices.delete(id);
  }
  if (byId(step[0][0])) {
    if (!listed().some(r => r.id === step[0][0])) at("table").value = at("find").value = "";
    current = step[0][0];
  }
  show();
  say(`Taken back: ${step.length === 1 && byId(step[0][0]) ? called(byId(step[0][0])) : several(step.length, "choice")}. ` +
    at("sums").textContent + ".");
}

// What choices would come to: nothing is written.
async function check(batch) {
  let came;
  try {
    came = await ask("check", { decisions: batch });
  } catch (e) {
    if (!over) say(`It could not be found out what this would do: ${e.message}`);
    return;
  }
  const notes = [];
  for (const { id, verb } of batch) {
    const choice = choices.get(id);
    if (!choice || choice.verb !== verb) continue;
    choice.refused = came.refused.find(r => r.id === id)?.why ?? null;
    choice.opened = came.opened.filter(o => batch.length === 1 || o.by === id);
    const r = byId(id);
    if (choice.refused) notes.push(`${called(r)} is refused: ${choice.refused}.`);
  }
  if (came.opened.length) {
    const first = came.opened[0];
    notes.push(came.opened.length === 1
      ? `The last choice opens another conflict: ${becomes(first)}.`
      : `The last choice opens ${came.opened.length} other conflicts.`);
  }
  if (notes.length) say(`${at("say").textContent} ${notes.join(" ")}`);
  show();
}

// ---- asking back

let answer = () => {};

// `loses`: yes would lose something, so Enter says no.
function question(text, reasons, yes, loses) {
  at("question").textContent = text;
  at("reasons").replaceChildren(...reasons.map(reason => make("li", reason)));
  at("yes").replaceChildren(yes + " ", make("kbd", loses ? "y" : "Enter"));
  at("ask").showModal();
  at(loses ? "no" : "yes").focus();
  return new Promise(resolve => { answer = resolve; });
}
at("yes").addEventListener("click", () => { answer(true); at("ask").close(); });
at("no").addEventListener("click", () => { answer(false); at("ask").close(); });
at("ask").addEventListener("close", () => {
  // It is told late: the next question may be open already.
  if (at("ask").open) return;
  answer(false);
  at("question").textContent = "";
  at("reasons").replaceChildren();
  at("list").focus();
});
at("ask").addEventListener("keydown", event => { if (event.key === "y") at("yes").click(); });
at("close").addEventListener("click", () => at("help").close());
at("help").addEventListener("close", () => at("list").focus());

// ---- writing

const all = () => [...choices].map(([id, c]) => ({ id, verb: c.verb, seen: c.seen }));
const told = id => byId(id) ? called(byId(id)) : `record ${id.slice(0, 8)}`;

function surprises(came) {
  return [
    ...came.refused.map(r => `${told(r.id)} is refused, and stays as it is: ${r.why}.`),
    ...came.gone.map(g => `${told(g.id)} was settled meanwhile: ${g.why}.`),
    ...came.changed.map(id => `${told(id)} has changed meanwhile, and is not written: look at it again.`),
    ...came.opened.map(o => `Another conflict opens${o.by ? ` because of ${told(o.by)}` : ""}: ${becomes(o)}.`),
  ];
}

function losses(would) {
  if (!would.deleted.length) return [];
  const named = would.deleted.slice(0, 10);
  const more = would.deleted.length - named.length;
  if (more) named.push(several(more, "more row"));
  return [`Deleted on all sites: ${named.join(", ")}. ${would.regret}`];
}

async function write() {
  if (busy) return;
  if (!choices.size) {
    say("Nothing is decided yet.");
    return;
  }
  busy = true;
  show();
  try {
    const would = await ask("check", { decisions: all() });
    const reasons = [...surprises(would), ...losses(would)];
    if (reasons.length) {
      const n = would.settled.length;
      const text = `${several(n, "conflict")} will be settled, and ${would.open} will be open. Mind this:`;
      if (!await question(text, reasons, `Write ${several(n, "choice")}`, would.deleted.length > 0)) {
        say("Nothing was written.");
        return;
      }
    }
    const came = await ask("settle", { decisions: all() });
    for (const line of surprises(came)) say(line, true);
    for (const id of [...came.settled, ...came.gone.map(g => g.id), ...came.changed]) choices.delete(id);
    for (const { id, why } of came.refused) if (choices.has(id)) choices.get(id).refused = why;
    steps.length = 0;
    const fresh = new Map(came.opened.map(o => [o.id, "new: opened by your choice"]));
    came.changed.forEach(id => fresh.set(id, "changed: look again"));
    // What steps aside is the next to look at.
    if (came.opened.length) current = came.opened[0].id;
    await look(fresh);
    say(`${several(came.settled.length, "conflict")} settled and written. ` +
      (open ? `${several(open, "conflict")} left.`
        : "All are settled; the other sites follow when they synchronize. q ends the review."), true);
  } catch (e) {
    if (!over) say(`Not written: ${e.message}`, true);
  } finally {
    busy = false;
    if (!over) show();
  }
}

async function done() {
  if (busy) return;
  if (choices.size) {
    const text = `${several(choices.size, "choice")} not written. End all the same?`;
    const reasons = ["They are forgotten then. Go back and press w to write them."];
    if (!await question(text, reasons, "End", true)) return;
  }
  choices.clear();
  sessionStorage.removeItem(keep);
  try {
    await ask("end", {});
    stop(`The review has ended; ${several(open, "conflict")} open. You can close this page.`);
  } catch { /* It has ended, and says so. */ }
}

// ---- looking

// What is open now. `notes`: what to say of some.
async function look(notes = new Map()) {
  const found = await ask("records?known=" + version);
  if (found.version === version) return;
  const before = records;
  const first = version === "";
  const chosen = tables[at("table").value]?.name;
  version = found.version;
  ({ records, tables, open } = found);
  at("of").textContent = `in ${found.name}, at ${found.site}`;
  const had = new Map(before.map(r => [r.id, r]));
  for (const r of records) {
    const old = had.get(r.id);
    r.note = notes.get(r.id) ?? (old && old.seen === r.seen ? old.note : !old && !first ? "new" : "");
    const choice = choices.get(r.id);
    if (choice && choice.seen !== r.seen) {
      choices.delete(r.id);
      r.note = "changed: look again";
      say(`${called(r)} has changed meanwhile: your choice for it is taken back. Look again.`, true);
    }
  }
  const how = new Map(found.closed.map(c => [c.id, c.how]));
  for (const id of [...choices.keys()]) {
    // One that is past what is listed may be open still; then the program says so when it is written.
    if (byId(id) || records.length < open) continue;
    const old = had.get(id);
    const what = old ? `${old.called}` : `record ${id.slice(0, 8)}`;
    say(`${what} was settled meanwhile, ${how.get(id) ?? "elsewhere"}: nothing is left to decide on it.`, true);
    choices.delete(id);
  }
  // Names of tables may stand at other numbers next time.
  for (const r of records) r.called = called(r);
  showTables(chosen);
  show();
}

async function follow() {
  if (over) return;
  // A page that nobody looks at asks for nothing, unless it has something to lose.
  if (!busy && (!document.hidden || choices.size)) {
    try {
      await look();
    } catch (e) {
      if (!over) say(`What is open cannot be read just now: ${e.message}`);
    }
  }
  setTimeout(follow, PERIOD);
}

// ---- keys

const MOVES = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 };

document.addEventListener("keydown", event => {
  const { key, target } = event;
  if (over || document.querySelector("dialog[open]")) return;
  const undoes = (event.ctrlKey || event.metaKey) && key === "z";
  if (event.altKey || ((event.ctrlKey || event.metaKey) && !undoes)) return;
  if (target.matches("input, select")) {
    // Enter keeps what is looked for, Escape forgets it.
    if (key === "Escape" && target === at("find")) {
      target.value = "";
      show();
    }
    if (key === "Escape" || (key === "Enter" && target === at("find"))) {
      event.preventDefault();
      at("list").focus();
    }
    return;
  }
  const r = byId(current);
  const digit = /^Digit[1-9]$/.test(event.code) ? Number(event.code.slice(5)) : Number(key) || 0;
  const byKey = r && (r.choices[digit - 1] ?? r.choices.find(c => c.verb[0] === key.toLowerCase() && key.length === 1));
  const scrolls = target.closest("#frame, #log") && key in MOVES && key.length > 1;
  if (undoes || key === "z" || key === "Backspace") undo();
  // Where digits stand behind Shift, a digit is a digit.
  else if (byKey && event.shiftKey && !/^[0-9]$/.test(key)) choose([r, ...like(r, byKey.verb)], byKey.verb);
  else if (byKey) choose([r], byKey.verb);
  else if (key in MOVES && !scrolls) move(MOVES[key]);
  else if (key === "Enter" && target === at("list")) at("record").focus();
  else if (key === "Escape") at("list").focus();
  else if (key === "n") { if (!next()) say("All that are listed are decided."); }
  else if (key === "x") clear();
  else if (key === "w") write();
  else if (key === "q") done();
  else if (key === "/") at("find").focus();
  else if (key === "t") at("table").focus();
  else if (key === "c") widen();
  else if (key === "?") at("help").showModal();
  else return;
  event.preventDefault();
});

function widen() {
  wide = !wide;
  showRecord();
}

at("undo").addEventListener("click", undo);
at("write").addEventListener("click", write);
at("done").addEventListener("click", done);
at("keys").addEventListener("click", () => at("help").showModal());
at("wider").addEventListener("click", widen);
at("table").addEventListener("change", show);
at("find").addEventListener("input", show);

// ---- coming and going

const present = here => fetch("page", {
  method: "POST", keepalive: true, headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ page, here }),
}).catch(() => {});

addEventListener("beforeunload", event => { if (choices.size && !over) event.preventDefault(); });
addEventListener("pagehide", () => { if (!over) present(false); });
addEventListener("pageshow", event => { if (event.persisted && !over) present(true); });

async function begin() {
  const token = location.hash.slice(1);
  // It is good once; it does not stay in the address or the history.
  history.replaceState(null, "", location.pathname);
  try {
    if (token) await ask("session", { token });
    for (const { id, verb, seen } of JSON.parse(sessionStorage.getItem(keep) ?? "[]")) {
      choices.set(id, { verb, seen, refused: null, opened: [] });
    }
    await look();
  } catch (e) {
    if (!over) stop(e.message);
    return;
  }
  await present(true);
  at("main").hidden = at("bar").hidden = false;
  show();
  at("list").focus();
  say(`${several(open, "conflict")} to decide. 1 and 2 choose, z takes back, w writes, ? tells all keys.`);
  setTimeout(follow, PERIOD);
}
begin();
