/* lamina's report, made interactive. The file shows all of it already; this script draws it again with
 * controls. It reads the data block once and loads nothing. Text of a model is shown only by `show` and
 * `esc`. No element gets a style attribute: the page's Content-Security-Policy forbids it. */
(() => {
'use strict';

/* ---- The data block, and short names for common functions ---- */

const data = JSON.parse(document.getElementById('data').textContent);
const {places: N, texts: S, parent, numbers: METRICS, memory: memoryData} = data; // block.schema.json
const before = data.before; // of the report before, on a page of a difference; else null
const REPORTS = before ? [before, data] : [data];
const el = id => document.getElementById(id);
const find = (selector, from = document) => from.querySelector(selector);
const findAll = (selector, from = document) => from.querySelectorAll(selector);
const PHASES = ['forward', 'backward', 'recompute'];
const CHANGES = ['', 'added', 'removed', 'changed', 'renamed'].map((word, k) =>
  ({word, sign: ' +−~>'[k].trim(), tag: ['', 'add', 'del', 'chg', 'ren'][k]}));

/* ---- Text. Names are not trusted: control and bidi characters are spelt out, the rest is escaped ---- */

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;
const clean = s => s.replace(UNSEEN, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
const esc = s => clean(String(s)).replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]|\p{Emoji_Presentation}/u;
const cellsOf = c => c < '\u0300' ? 1 : /\p{M}/u.test(c) ? 0 : WIDE.test(c) ? 2 : 1;
/* The columns of a text in a monospaced font. */
const width = s => /^[ -~]*$/.test(s) ? s.length : Array.from(s).reduce((sum, c) => sum + cellsOf(c), 0);

/* The first characters that fit into `room` columns. */
function fitting(characters, room) {
  let k = 0;
  while (k < characters.length && (room -= cellsOf(characters[k])) >= 0) k++;
  return characters.slice(0, k);
}

/* A text of at most `room` columns, cut in the middle. */
function cut(s, room) {
  if (s.length <= 4 * room && width(s) <= room) return s;
  if (room < 2) return fitting(Array.from(s.slice(0, 4)), room).join('');
  const first = Math.ceil(room * .6) - 1, last = room - first - 1;
  return fitting(Array.from(s.slice(0, 4 * first + 4)), first).join('') + '…' +
    fitting(Array.from(s.slice(-4 * last - 4)).reverse(), last).reverse().join('');
}
const ends = (s, n) => s.length > 2 * n ? s.slice(0, n) + s.slice(-n) : s; // for very long names
const show = (s, room) => esc(cut(clean(ends(s, 4 * room)), room));
const plural = (n, one, many) => `${exact(n)} ${n === 1 ? one : many}`;

/* ---- Numbers as text, as base/number.c writes them: half is rounded up ---- */

/* Three digits, a narrow space and the first unit with fewer than `base`. */
function scaled(v, base, units) {
  const n = BigInt(Math.round(v)), at = p => (n * 10n ** BigInt(p) + unit / 2n) / unit;
  let unit = 1n, k = 0, p = 2;
  for (; units[k + 1] && n >= unit * base; k++) unit *= base;
  while (p && (!k || at(p) >= 1000n)) p--;
  if (units[k + 1] && at(0) >= base) return '1.00\u202f' + units[k + 1];
  const text = String(at(p));
  return (p ? text.slice(0, -p) + '.' + text.slice(-p) : text) + (units[k] && '\u202f' + units[k]);
}
const count = v => scaled(v, 1000n, ['', 'K', 'M', 'G', 'T', 'P', 'E']);
const bytes = v => scaled(v, 1024n, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']);
const time = ns => scaled(ns, 1000n, ['ns', 'µs', 'ms', 's']);
const percent = p => p.toFixed(p >= 9.95 ? 0 : p >= .0995 || !p ? 1 : 2) + '\u202f%';
const share = (a, b) => b > 0 ? percent(100 * a / b) : '';

/* The change from `a` to `b`, short: a cell has room for seven characters. */
function difference(a, b) {
  if (a === b) return '=';
  if (!a || !b) return a ? 'gone' : 'new';
  const p = 100 * Math.abs(b - a) / a;
  if (p < .02) return '≈';
  return (b > a ? '+' : '−') + percent(p);
}
const grouped = s => s.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
/* All digits. Above 2^53 the last ones are unknown here, and at 2^63 the counter has stopped. */
const exact = v => (v > 2 ** 53 ? 'about ' : '') + grouped(BigInt(Math.round(v)).toString());

/* ---- The tree of places. A parent comes before its children ---- */

const kids = Array.from({length: N}, () => []);
const depth = new Int32Array(N);
const paths = new Array(N).fill('');
const byPath = new Map([['', 0]]);
for (let i = 1; i < N; i++) {
  const p = parent[i], name = S[data.names[i]];
  kids[p].push(i);
  depth[i] = depth[p] + 1;
  paths[i] = paths[p] ? paths[p] + '.' + name : name;
  byPath.set(paths[i], i);
}
const typeOf = i => S[data.types[i]];
const nameOf = i => i ? S[data.names[i]] : typeOf(0);
const pathOf = i => paths[i] || typeOf(0); // to be shown
const statusOf = i => S[data.status[i] || 0];
const callsOf = i => data.calls[i] || 1; // 1 too if it was not called
const changeOf = i => CHANGES[before ? data.changes[i] : 0];
const oldPathOf = i => before ? data.renamed[i] ?? null : null;
const isIn = (i, above) => { while (i > above) i = parent[i]; return i === above; };

const kept = new Map();
const keep = (key, make) => { if (!kept.has(key)) kept.set(key, make()); return kept.get(key); };

/* ---- Metrics, as the writer has added them up. `of`: the report, this one or the one before ---- */

const FORMATS = {counts: count, bytes, times: time};
for (const m of METRICS) m.format = FORMATS[m.unit];
let phase = 0; // 1: the backward too
const viewOf = (m, of = data) => {
  const views = of === before ? m.before : m;
  return phase && views.step || views.forward;
};
const totalOf = (m, of) => viewOf(m, of).total;
const stateAt = (m, i, of) => viewOf(m, of).state[i] || 0; // 0 exact, 1 at least, 2 unknown
/* The number of a place itself, without those inside. */
const ownAt = (m, i) => kids[i].length ? viewOf(m).own[i] || 0 : totalOf(m)[i];
/* A container's median is not the sum of the medians inside: widths use the sum, text the median. */
const toShow = (m, i, of) => viewOf(m, of).shown[i] ?? totalOf(m, of)[i];
const hasBackward = METRICS.some(m => m.step);
const FIRST = METRICS.find(m => m.name === 'macs') || METRICS[0];
let metric = FIRST;

function valueText(m, i, v = toShow(m, i)) {
  const state = stateAt(m, i);
  return state === 2 && !v ? '?' : (state ? '≥\u202f' : '') + (v ? m.format(v) : '0');
}

/* True if the numbers of a place can be compared: measured and exact in both, by one convention. */
const isComparable = (m, i) =>
  !!before && viewOf(m, before).comparable && !stateAt(m, i) && !stateAt(m, i, before);

/* The number before of a place, or of a run; null if it can't be compared. */
function numberBefore(m, run) {
  if (!run.every(i => isComparable(m, i))) return null;
  return run.length > 1 ? run.reduce((sum, i) => sum + totalOf(m, before)[i], 0) : toShow(m, run[0], before);
}
const exactDifference = (a, b) => a === null || a === b ? '' :
  `, was ${exact(a)}, ${b > a ? '+' : '−'}${exact(Math.abs(b - a))}`;
const exactText = (v, state) => exact(v) + ['', ', at least', ', unknown'][state];
/* "1.81 G → 3.63 G +102 %"; the number alone if there is none before. */
function fromTo(m, i) {
  const was = before ? numberBefore(m, [i]) : null, now = valueText(m, i);
  if (was === null) return now;
  const from = was && was !== toShow(m, i) ? `<span class="dim">${m.format(was)} →</span> ` : '';
  return `${from}${now} <span class="dim">${difference(was, toShow(m, i))}</span>`;
}

/* ---- Families, for colours; and runs of equal siblings, which fold ---- */

const familyOf = i => data.families[data.family[i]];

/* What a place is marked with: the text of a tag and its class. Null: nothing. */
function markOf(i) {
  const mark = data.health ? data.health[i] : 0;
  return mark ? data.marks[mark - 1] : null;
}
const stem = s => s.replace(/\d+$/, '');

/* The children of a place in groups: a run of equal siblings is one group. */
const runsOf = i => keep('runs ' + i, () => {
  const groups = [], all = kids[i];
  for (let a = 0, b; a < all.length; a = b) {
    b = a + (data.run[all[a]] || 1);
    groups.push(all.slice(a, b));
  }
  return groups;
});
const runName = run => `${nameOf(run[0])}…${nameOf(run.at(-1)).slice(stem(nameOf(run[0])).length)}`;

/* The place whose box represents a place when runs are folded. */
function standIn(i) {
  if (i <= 0) return i;
  const p = parent[i], above = standIn(p), same = kids[above][kids[p].indexOf(i)];
  return runsOf(above).find(run => run.includes(same))[0];
}

/* ---- One selection for all sections ---- */

let selected = -1, hovered = -1;
let starting = true; // the address is not written before it is read

/* Marks the selected place and the one under the pointer, in every section. */
function mark() {
  for (const e of findAll('.sel,.hov,.lit')) e.classList.remove('sel', 'hov', 'lit');
  for (const e of findAll('#rows [aria-selected=true]')) e.setAttribute('aria-selected', 'false');
  for (const e of findAll(`[data-i="${hovered}"]`)) e.classList.add('hov');
  for (const e of findAll(`[data-i="${selected}"]`)) {
    e.classList.add('sel');
    if (e.parentNode.id === 'rows') e.setAttribute('aria-selected', 'true');
  }
  if (selected >= 0) for (const e of findAll(`#ifig [data-i="${standIn(selected)}"]`)) e.classList.add('sel');
  const at = hovered >= 0 ? hovered : selected;
  for (const e of findAll(`#gfig [data-i="${at}"][data-node]`)) markLines(e.dataset.node);
}

/* Marks the lines into and out of one node of the graph. */
function markLines(node) {
  for (const e of findAll(`[data-from="${node}"],[data-to="${node}"]`)) e.classList.add('lit');
}

/* Writes selection, metric and phase into the address, without a new entry of the history. */
function writeAddress() {
  if (starting) return;
  const parts = [];
  if (selected >= 0) parts.push('layer=' + encodeURIComponent(paths[selected].toWellFormed()));
  if (metric !== FIRST) parts.push('by=' + metric.name);
  if (phase) parts.push('step=1');
  history.replaceState(null, '', parts.length ? '#' + parts.join('&') : location.pathname + location.search);
}

/* The parts of an address after its #: `layer`, `by`, `step`. */
function partsOf(hash) {
  const parts = {};
  for (const part of hash.slice(1).split('&')) {
    const [, key, value] = part.match(/^(\w+)=(.*)$/s) || [];
    try { if (key) parts[key] = decodeURIComponent(value); } catch { /* not written by this page */ }
  }
  return parts;
}

/* The place that an address names, or -1. */
function placeOf(hash) {
  const {layer} = partsOf(hash);
  return layer !== undefined && byPath.has(layer) ? byPath.get(layer) : -1;
}

function readAddress() {
  const {by, step} = partsOf(location.hash);
  metric = METRICS.find(m => m.name === by) || metric;
  if (step) phase = hasBackward ? 1 : 0;
  return placeOf(location.hash);
}

/* Draws, and restores the focus to the element that replaces the focused one. */
function redraw(draw) {
  const was = document.activeElement, home = was && was.closest('[id]');
  const keys = was ? [...was.attributes].filter(a => /^data-/.test(a.name)) : [];
  const same = keys.map(a => `[${a.name}="${CSS.escape(a.value)}"]`).join('');
  draw();
  if (!home || document.activeElement === was || was.isConnected) return;
  const now = el(home.id) || find('main');
  const next = same && find(was.tagName + same, now) || now.closest('[tabindex="0"]') || find('button', now);
  if (next) next.focus({preventScroll: true});
}

/* Selects a place, or none (-1). `from`: where it was selected, which is not scrolled. `why`: the
 * metric whose formulas are shown. `focus`: the row of the table gets the focus. */
function select(i, {from = '', why = null, focus = false} = {}) {
  selected = i;
  if (i >= 0 && from !== 'rows' && reveal(i)) redraw(drawRows);
  redraw(() => drawPanel(why));
  mark();
  writeAddress();
  if (i < 0) return;
  const row = find(`#rows > [data-i="${i}"]`);
  if (row) { rove(row, focus); scrollInto(el('tscroll'), row); }
  for (const id of ['gfig', 'mfig', 'rfig']) {
    const e = id !== from && find(`#${id} [data-i="${i}"]`);
    if (e) scrollInto(el(id), e);
  }
}

/* Scrolls a frame, but not the page, until an element in it can be seen. */
function scrollInto(frame, e) {
  const a = e.getBoundingClientRect(), b = frame.getBoundingClientRect();
  if (a.top < b.top + 36 || a.bottom > b.bottom) frame.scrollTop += a.top - b.top - b.height / 2;
  const outside = a.left + a.width / 2 < b.left || a.right > b.right && a.width < b.width;
  if (outside) frame.scrollLeft += a.left - b.left - 60;
}

/* ---- Verdict: its tiles, written for both phases, follow the metric; findings do not change ---- */

const tiles = find('#verdict .tiles');
const TILES = [tiles.innerHTML, hasBackward ? el('steps').innerHTML : ''];
function drawTiles() {
  tiles.innerHTML = TILES[phase];
  for (const e of findAll('.tile')) e.setAttribute('aria-pressed', e.dataset.by === metric.name);
}

/* ---- Modules: a treegrid ---- */

const ROWS_AT_A_TIME = 400, ROWS_AT_FIRST = 24;
const open = new Uint8Array(N);
const unfolded = new Set(); // first places of the runs that are shown one by one
let sorted = null, pattern = null, rowsShown = ROWS_AT_A_TIME;
let roving = null; // the row that Tab reaches

/* At first the tree is open level by level, as far as the rows fit. */
function openFirstLevels() {
  open[0] = 1;
  for (let level = [0], rows = 1; level.length;) {
    const groups = level.flatMap(runsOf);
    rows += groups.length;
    if (rows > ROWS_AT_FIRST && level[0]) return;
    for (const i of level) open[i] = 1;
    level = groups.map(run => run[0]).filter(i => kids[i].length);
  }
}

/* Opens all places above a place and unfolds its run; true if that changed the table. */
function reveal(i) {
  let changed = false;
  for (let p = parent[i], c = i; p >= 0; c = p, p = parent[p]) {
    if (!open[p]) { open[p] = 1; changed = true; }
    const run = runsOf(p).find(r => r.includes(c));
    if (run.length > 1 && run[0] !== c && !unfolded.has(run[0])) { unfolded.add(run[0]); changed = true; }
  }
  return changed;
}

/* True if a place matches the search: its path, its old path, its type, or the word for its change. */
function isFound(i) {
  const {word} = changeOf(i), old = oldPathOf(i), hit = word && word.match(pattern);
  return pattern.test(paths[i]) || pattern.test(typeOf(i)) || old !== null && pattern.test(old) ||
    !!hit && hit[0] === word;
}

/* The rows to show: each is a list of places; several places are a run. */
function visibleRows() {
  const total = sorted && totalOf(sorted.metric);
  const sum = run => run.reduce((a, i) => a + total[i], 0);
  const inOrder = rows => sorted ? rows.slice().sort((a, b) => sorted.way * (sum(b) - sum(a))) : rows;
  if (pattern) {
    const found = [];
    for (let i = 0; i < N; i++) if (isFound(i)) found.push([i]);
    return inOrder(found);
  }
  const rows = [[0]];
  const walk = i => {
    for (const run of inOrder(runsOf(i).flatMap(r => unfolded.has(r[0]) ? r.map(c => [c]) : [r]))) {
      rows.push(run);
      if (open[run[0]]) walk(run[0]);
    }
  };
  if (open[0]) walk(0);
  return rows;
}

const tag = (words, kind = '', title = '') =>
  `<span class="tag ${kind}"${title && ` title="${title}"`}>${words}</span>`;

/* The tags after a name: how it was called, what is wrong with it. */
function tagsOf(i, run) {
  const calls = callsOf(i), mark = markOf(i), n = run.length;
  const change = changeOf(i), old = oldPathOf(i);
  let tags = '';
  if (change.word) {
    const renamed = old !== null, name = renamed && old.slice(old.lastIndexOf('.') + 1);
    tags += tag(`${esc(change.sign)} ${change.word}${renamed ? ` from <bdi>${show(name, 30)}</bdi>` : ''}`,
      change.tag, renamed ? `was ${show(old, 300)}` : '');
  }
  if (n > 1) {
    tags += `<button class="tag noprint" data-unfold="${i}" tabindex="-1">×${n} equal, each</button>`;
  }
  if (mark) tags += tag(...mark);
  if (statusOf(i)) tags += tag(statusOf(i));
  if (calls > 1) tags += tag(`${exact(calls)} calls`);
  return tags;
}

/* The first tensor of several, and how many more there are. */
function outputText(i) {
  const tensors = S[data.outputs[i]].split(', ');
  const more = tensors.length > 1 ? ` +${tensors.length - 1}` : '';
  return show(tensors[0].replace(/ float32$/, ''), 34) + more;
}

function numberCell(m, i, run) {
  const total = totalOf(m), state = stateAt(m, i);
  const n = run.length, v = run.reduce((sum, c) => sum + total[c], 0);
  const one = n > 1 ? Math.floor(v / n) : total[i], now = n > 1 ? one : toShow(m, i);
  const words = valueText(m, i, now);
  const bar = state === 2 && !v || !total[0] ? 0 : Math.min(50, Math.round(50 * v / total[0]));
  const all = numberBefore(m, run), was = n > 1 && all !== null ? Math.floor(all / n) : all;
  const change = !before ? '' :
    `<span class="dl">${was === null || was === now ? '' : difference(was, now)}</span>`;
  const classes = ['n', m === metric && 'hot', bar && 'w' + bar, state && 'al'].filter(Boolean).join(' ');
  return `<td class="${classes}" data-m="${m.name}" title="${exactText(one, state)}` +
    `${exactDifference(was, now)}">${words === '0' ? '<span class="dim">0</span>' : words}${change}</td>`;
}

function rowHtml(run) {
  const i = run[0], label = run.length > 1 ? runName(run) : pattern ? pathOf(i) : nameOf(i);
  const opens = kids[i].length && !pattern, indent = pattern ? 0 : Math.min(depth[i], 24);
  return `<tr data-i="${i}" aria-level="${pattern ? 1 : depth[i] + 1}" tabindex="-1" aria-selected="false"` +
    `${opens ? ` aria-expanded="${!!open[i]}"` : ''}><th scope="row" title="${show(pathOf(i), 300)}">` +
    `<span class="ind${indent ? ' i' + indent : ''}"></span>` +
    `<span class="tw" aria-hidden="true">${opens ? open[i] ? '▾' : '▸' : ''}</span>` +
    `<span class="sw b-${familyOf(i)}"></span><bdi class="mono">${show(label, pattern ? 70 : 46)}</bdi>` +
    `${i ? `<span class="ty"><bdi>${show(typeOf(i), 30)}</bdi></span>` : ''}${tagsOf(i, run)}</th>` +
    `<td class="l dim">${outputText(i)}</td>${METRICS.map(m => numberCell(m, i, run)).join('')}</tr>`;
}

function headingHtml(m) {
  const by = sorted && sorted.metric === m ? sorted.way : 0;
  return `<th scope="col"${m === metric ? ' class="hot"' : ''}` +
    `${by ? ` aria-sort="${by > 0 ? 'descending' : 'ascending'}"` : ''}>` +
    `<button data-sort="${m.name}">${m.title}${by ? by > 0 ? ' ↓' : ' ↑' : ''}</button></th>`;
}

function drawRows() {
  const all = visibleRows(), left = all.length - rowsShown;
  el('thead').innerHTML = '<tr><th scope="col"><span>module</span></th>' +
    '<th scope="col" class="l"><span>output</span></th>' + METRICS.map(headingHtml).join('') + '</tr>';
  el('rows').innerHTML = all.slice(0, rowsShown).map(rowHtml).join('');
  el('more').innerHTML = left > 0 ? `${plural(left, 'more row', 'more rows')}. ` +
    `<button data-more="1">show ${Math.min(left, ROWS_AT_A_TIME)} more</button>` :
    pattern ? `${exact(all.length)} of ${plural(N, 'module matches', 'modules match')}.` : '';
  roving = null;
  const row = find(`#rows > [data-i="${selected}"]`) || el('rows').firstElementChild;
  if (row) rove(row);
  mark();
}

/* Makes a row the one that Tab reaches. */
function rove(row, focus) {
  if (roving) roving.tabIndex = -1;
  roving = row;
  row.tabIndex = 0;
  if (focus) row.focus({preventScroll: true});
}

function toggleRow(i) {
  open[i] ^= 1;
  redraw(drawRows);
}

/* Sorts by a metric: most first, least first, the model's order. */
function sortBy(m) {
  const way = sorted && sorted.metric === m ? sorted.way : 0;
  sorted = way < 0 ? null : {metric: m, way: way ? -1 : 1};
  metric = m;
  drawAll();
}

/* Searches; an invalid pattern leaves the table unchanged. */
function search(field) {
  try {
    pattern = field.value ? new RegExp(field.value, 'i') : null;
    field.setAttribute('aria-invalid', 'false');
  } catch {
    field.setAttribute('aria-invalid', 'true');
    return;
  }
  rowsShown = ROWS_AT_A_TIME;
  drawRows();
}

/* ---- Parts of pictures ---- */

const CELL = 6.9; // width of a character of 11.5 px, in units
const at = v => String(Math.round(v * 10) / 10);
const rect = (x, y, w, h, rest) =>
  `<rect x="${at(x)}" y="${at(y)}" width="${at(w)}" height="${at(h)}" ${rest}`;
const path = (kind, d) => `<path class="${kind}" d="${d}"/>`;
const titleOf = i => `${show(pathOf(i), 200)} (${show(typeOf(i), 60)})`;
const label = (x, y, kind, words) => `<text class="${kind}" x="${at(x)}" y="${at(y)}">${words}</text>`;
const frameWidth = frame => Math.max(350, Math.min(1120, frame.clientWidth || 1008));
const svg = (w, h, title, body) =>
  `<svg viewBox="0 0 ${w} ${h}" role="img" aria-label="${title}">${body}</svg>`;
/* A name if all of it fits, or six characters; else nothing. */
function fittingName(name, room) {
  const s = clean(name.slice(0, 400));
  return room >= Math.min(width(s), 6) ? cut(s, room) : '';
}

/* ---- Where it goes: an icicle ---- */

const ICICLE_ROW = 27, ICICLE_LEVELS = 12;
let top = 0;

/* Draws a box and its insides, of out.of. `times`: how many equal modules it represents. */
function icicleBox(out, run, x, w, level, times) {
  const total = totalOf(metric, out.of), i = run[0], y = out.y + level * (ICICLE_ROW + 1) + 1;
  const all = total[i] * times, sign = changeOf(i).sign && changeOf(i).sign + ' ';
  const value = out.of === data ? valueText(metric, i, all) : metric.format(all);
  const alone = i === top ? pathOf(i) : times > 1 ? `${nameOf(i)} ×${times}` : nameOf(i);
  const name = sign + (run.length > 1 ? `${runName(run)} ×${run.length} ${typeOf(i)}` : alone);
  out.deep = Math.max(out.deep, level + 1);
  const note = (times > 1 ? `, ${times} equal modules together` : '') + (sign && ', ' + changeOf(i).word);
  const room = Math.floor((w - 9) / CELL), words = fittingName(name, room);
  const shown = words === clean(name) && room - width(words) > value.length;
  const number = shown ? ` <tspan class="d">${value}</tspan>` : '';
  out.svg.push(`<g class="cl" data-i="${i}">`, rect(x, y, Math.max(w - 1, .6), ICICLE_ROW,
    `rx="2" class="o thin f-${familyOf(i)}"><title>` +
    `${titleOf(i)}: ${value}, ${share(all, total[0])}${note}</title></rect>`),
    words && label(x + 5, y + 17, 'm', `<tspan>${esc(words)}</tspan>${number}`),
    '</g>');
  if (level + 1 >= ICICLE_LEVELS) return;
  let left = x, small = 0, smallOnes = 0;
  const inside = kids[i].reduce((sum, c) => sum + total[c], 0);
  const scale = w / Math.max(total[i], inside, 1);
  for (const r of runsOf(i)) {
    const wide = total[r[0]] * r.length * scale;
    if (wide < 1.5) { small += wide; smallOnes += r.length; continue; }
    icicleBox(out, r, left, wide, level + 1, times * r.length);
    left += wide;
  }
  if (small < 1.5) return;
  out.deep = Math.max(out.deep, level + 2);
  out.svg.push(rect(left, y + ICICLE_ROW + 1, small - .5, ICICLE_ROW,
    `class="f-rest thin"><title>${smallOnes} more, too small to draw</title></rect>`));
}

/* Both reports on one scale, the one before on top, each below its name. */
function icicles(out, w) {
  const largest = Math.max(...REPORTS.map(of => totalOf(metric, of)[top]));
  for (const of of REPORTS) {
    const all = totalOf(metric, of)[top];
    if (before) {
            out.svg.push(label(1, out.y + 12, 's d', `${of === before ? 'before' : 'after'}: ` +
        `<tspan>${show(of.name, 40)}</tspan>, <tspan>${metric.format(all)}</tspan>`));
      out.y += 18;
    }
    Object.assign(out, {of, deep: 1});
    if (all) icicleBox(out, [top], 1, (w - 2) * all / largest, 0, 1);
    else out.svg.push(label(10, out.y + 19, 'd', before ? 'nothing' : 'nothing is known here'));
    out.y += out.deep * (ICICLE_ROW + 1) + 2;
  }
}

function drawIcicle() {
  if (!el('ifig')) return;
  const w = frameWidth(el('ifig')), out = {svg: [], y: 0}, crumbs = [], total = totalOf(metric);
  icicles(out, w);
  el('ifig').innerHTML = svg(w, out.y,
    `Icicle of ${metric.title}: each box is a module, as wide as its share`, out.svg.join(''));
  for (let i = top; i >= 0; i = parent[i]) {
    const name = `<bdi>${show(nameOf(i), 40)}</bdi>`;
    crumbs.unshift(i === top ? `<b>${name}</b>` : `<button class="link" data-top="${i}">${name}</button>`);
  }
  el('icrumb').innerHTML = `${viewOf(metric).label}: ${fromTo(metric, top)}` +
    `${top && !before ? `, ${share(total[top], total[0])} of the model` : ''} · ${crumbs.join(' › ')}`;
}

function zoomIcicle(i) {
  top = i;
  redraw(drawIcicle);
  mark();
}

/* ---- Memory over time: the picture is drawn already; a line follows the pointer ---- */

const course = find('#mfig rect[data-us]');
let point = -1; // of the course, where the line is; -1: there is none

/* Shows bytes, time and the module at work at one point of the course. */
function drawCross(k) {
  if (k === point) return;
  point = k;
  el('cross')?.remove();
  if (k < 0) return;
  const box = course.getBBox(), along = memoryData.times[k] / course.dataset.us, onLeft = along > .6;
  const x = box.x + box.width * along, bottom = box.y + box.height, place = memoryData.at_work[k];
  const words = [bytes(memoryData.bytes[k]), time(memoryData.times[k] * 1000)];
  if (place >= 0) words.push(show(pathOf(place), 40));
  course.insertAdjacentHTML('afterend', `<g id="cross">${path('ax2', `M${at(x)} ${box.y}V${bottom}`)}` +
    `${label(x + (onLeft ? -6 : 6), bottom - 8, `s b halo ${onLeft ? 'r' : ''}`, words.join(' · '))}</g>`);
}

function moveCross(event) {
  const box = course.getBoundingClientRect(), t = (event.clientX - box.left) / box.width * course.dataset.us;
  drawCross(memoryData.times.findLastIndex(start => start <= t));
}

/* ---- Graph. The writer has laid out each level; opening a box stretches the plane around it ---- */

const NODE_MODULE = 0, NODE_END = 2, NEST = 6; // a node of another kind is operators
const opened = new Set(); // places that are drawn open
let zoom = 1;
const levelOf = i => data.drawings[data.drawing_of[i]] || null;

/* A monotone map that makes room: each part is [from, to, more], and its length grows by `more`. Where parts
 * overlap the densest is used, so order and alignment stay. */
function stretch(parts) {
  if (!parts.length) return v => v;
  const ends = [...new Set(parts.flatMap(p => [p[0], p[1]]))].sort((a, b) => a - b), grown = [0];
  for (let k = 0; k + 1 < ends.length; k++) {
    const a = ends[k], b = ends[k + 1], over = parts.filter(p => p[0] <= a && p[1] >= b);
    grown.push(grown[k] + (b - a) * Math.max(0, ...over.map(p => p[2] / (p[1] - p[0]))));
  }
  return v => {
    if (v <= ends[0]) return v;
    let k = ends.length - 1;
    while (ends[k] > v) k--;
    const part = k + 1 < ends.length ? (v - ends[k]) / (ends[k + 1] - ends[k]) : 0;
    return v + grown[k] + part * ((grown[k + 1] ?? grown[k]) - grown[k]);
  };
}

/* In ranks without an open node, nodes keep their distance to the spine, unless a trunk needs the room. */
function keepDistance(L, inner, mapX) {
  const placed = L.x.map(mapX), spine = mapX(0);
  for (let r = 0; r < L.tops.length; r++) {
    const items = [];
    for (let k = 0; k < L.nodes.length; k++) if (L.rank[k] === r) items.push([L.x[k], k]);
    if (items.some(item => inner[item[1]])) continue;
    for (const d of L.waypoints) if (d[1] === r) items.push([d[0], -1]);
    items.sort((a, b) => a[0] - b[0]);
    for (const way of [1, -1]) {
      let last = null;
      for (const [x, k] of way > 0 ? items : items.slice().reverse()) {
        if (way > 0 ? x < 0 : x >= 0) continue;
        let now = k < 0 ? mapX(x) : spine + x;
        if (k >= 0 && last) now = way * Math.max(way * now, way * (last[1] + x - last[0]));
        if (k >= 0) placed[k] = now;
        last = [x, now];
      }
    }
  }
  return placed;
}

/* The drawing of a place's inside: its size, and a function that draws it at a corner. */
function drawLevel(p, nest) {
  const L = levelOf(p), n = L.nodes.length, inner = {}, moreX = [], moreY = [];
  const inside = name => byPath.get((paths[p] && paths[p] + '.') + S[name]);
  const modules = L.nodes.map(([kind, name]) => kind === NODE_MODULE ? inside(name) : undefined);
  for (let k = 0; k < n; k++) {
    const i = modules[k], again = parseInt(S[L.nodes[k][2]], 10) > 1; // a second call is drawn closed
    if (i === undefined || !opened.has(i) || !levelOf(i) || nest >= NEST || again) continue;
    const d = inner[k] = drawLevel(i, nest + 1);
    d.boxWidth = Math.max(d.width + 28, L.widths[k]);
    d.boxHeight = Math.max(d.height + 52, L.heights[k]);
    moreX.push([L.x[k] - L.widths[k] / 2, L.x[k] + L.widths[k] / 2, d.boxWidth - L.widths[k]]);
    moreY.push([L.y[k], L.y[k] + L.heights[k], d.boxHeight - L.heights[k]]);
  }
  const mapX = stretch(moreX), mapY = stretch(moreY);
  const xs = moreX.length ? keepDistance(L, inner, mapX) : L.x;
  const middle = (map, v, half) => (map(v - half) + map(v + half)) / 2;
  const middleOf = k => {
    const half = L.heights[k] / 2;
    return inner[k] ? middle(mapY, L.y[k] + half, half) : mapY(L.y[k] + half);
  };
  const nodes = L.nodes.map(([kind, name, note], k) => ({k, kind, i: modules[k], inner: inner[k],
    key: p + ':' + k, name: S[name], note: S[note], rank: L.rank[k],
    w: inner[k] ? inner[k].boxWidth : L.widths[k], h: inner[k] ? inner[k].boxHeight : L.heights[k],
    x: inner[k] ? middle(mapX, L.x[k], L.widths[k] / 2) : xs[k],
    y: middleOf(k)}));
  const bends = L.waypoints.map(([x, rank, source]) => ({x: mapX(x), rank, source}));
  const left = Math.min(...nodes.map(q => q.x - q.w / 2), ...bends.map(b => b.x - 6));
  const right = Math.max(...nodes.map(q => q.x + q.w / 2), ...bends.map(b => b.x + 6));
  return {width: right - left, height: Math.max(...nodes.map(q => q.y + q.h / 2)), svg(x, y) {
    const dx = x - left, node = q => graphNode(L, nodes, q, p, q.x + dx - q.w / 2, q.y + y - q.h / 2);
    const line = ([a, b]) => graphLine(L, nodes, bends, a, b, mapY, dx, y);
    return L.segments.map(line).join('') + nodes.map(node).join('');
  }};
}

/* A line: down to the end of its rank, over to the next, down to its node. */
function graphLine(L, nodes, bends, from, to, mapY, dx, dy) {
  const n = nodes.length, a = nodes[from] || bends[from - n], b = nodes[to] || bends[to - n];
  const source = nodes[from < n ? from : a.source];
  const ends = mapY(L.bottoms[a.rank]) + dy, begins = mapY(L.tops[b.rank]) + dy;
  const half = at((ends + begins) / 2);
  const start = (from < n ? a.y + a.h / 2 : mapY(L.tops[a.rank])) + dy, ax = at(a.x + dx), bx = at(b.x + dx);
  const bend = Math.abs(a.x - b.x) < .6 ? 'V' : `C${ax} ${half} ${bx} ${half} ${bx} `;
  const tip = to < n ? b.y - b.h / 2 + dy : 0;
  const d = `M${ax} ${at(start)}V${at(ends)}${bend}${at(begins)}${to < n ? `V${at(tip - 1)}` : ''}`;
  const words = (source ? `from ${show(source.name, 60)} ` : '') + (to < n ? `to ${show(b.name, 60)}` : '');
  return `<g data-line="1" data-from="${source ? source.key : ''}" data-to="${to < n ? b.key : ''}">` +
    path('ed', d) + (to < n ? path('hd2', `M${at(b.x + dx - 3.5)} ${at(tip - 6)}h7l-3.5 6z`) : '') +
    `${path('hit', d)}<title>${words}</title></g>`;
}

function graphNode(L, nodes, q, p, x, y) {
  const readers = L.rail ? L.rail.filter(e => e[0] === q.k).map(e => nodes[e[1]].name) : [];
  const gives = readers.length ? `, gives to ${show(readers.join(', '), 200)}` : '';
  if (q.i === undefined) {
    const end = q.kind === NODE_END, room = Math.floor((q.w - 14) / (end ? 6 : CELL));
    const words = `<tspan>${show(q.name, Math.max(room, 4))}</tspan>`;
    return `<g data-node="${q.key}">` +
      rect(x, y, q.w, q.h, end ? 'rx="10" class="f-rest"/>' : 'rx="12" class="f-pool thin"/>') +
      label(x + q.w / 2, y + (end ? 14 : 16), end ? 's c' : 'm c', words) +
      `<title>${show(q.note || q.name, 300)}${gives}</title></g>`;
  }
  const i = q.i, own = totalOf(metric)[i], of = totalOf(metric)[p];
  const can = levelOf(i), value = valueText(metric, i);
  const bar = q.inner || !own ? 0 : Math.max(1, (q.w - 16) * own / (of || 1));
  const room = Math.floor((q.w - (can ? 34 : 16)) / CELL) - (q.inner ? value.length + 2 : 0);
  const {sign, word} = changeOf(i), name = cut((sign && sign + ' ') + clean(q.name), Math.max(4, room));
  const left = room - width(name) - 1;
  const known = own || stateAt(metric, i) ? value : '–', call = q.note ? ' · call ' + esc(q.note) : '';
  return `<g class="cl" data-i="${i}" data-node="${q.key}">` +
    rect(x, y, q.w, q.h, `rx="6" class="o ${word} f-${q.inner ? 'box' : familyOf(i)}"/>`) +
    label(x + 9, y + 18, '', `<tspan class="m b">${esc(name)}</tspan>` +
      `${left > 3 ? ` <tspan class="s d">${show(typeOf(i), left)}</tspan>` : ''}`) +
    (can ? `<g data-open="${i}">${rect(x + q.w - 25, y + 1, 24, 24, 'fill="transparent"/>')}` +
      `${label(x + q.w - 13, y + 18, 'd c b', q.inner ? '−' : '+')}</g>` : '') +
    (q.inner ? label(x + q.w - 30, y + 18, 's d r', value) +
      q.inner.svg(x + (q.w - q.inner.width) / 2, y + 36) : label(x + 9, y + 34, 's',
      `<tspan>${known}</tspan> <tspan class="d">${own ? share(own, of) : ''}${call}</tspan>`)) +
    (bar ? rect(x + 8, y + q.h - 7, Math.min(bar, q.w - 16), 3, 'rx="1.5" class="bar"/>') : '') +
    `<title>${titleOf(i)}: ${known} ${metric.title}, ${show(S[data.outputs[i]], 100)}` +
    `${word && ', ' + word}${gives}</title></g>`;
}

function drawGraph() {
  const figure = el('gfig');
  if (!figure || !levelOf(0)) return;
  const d = drawLevel(0, 0), w = Math.ceil(d.width + 32), h = Math.ceil(d.height + 32);
  figure.innerHTML = svg(w, h, 'Graph of the modules, inputs above, outputs below', d.svg(16, 16))
    .replace('<svg', `<svg width="${Math.round(w * zoom)}" height="${Math.round(h * zoom)}"`);
}

/* Opens or closes a module in the graph, and keeps its position on the screen. */
function toggleOpen(i) {
  if (!levelOf(i)) return;
  const box = () => find(`#gfig [data-i="${i}"]`), frame = el('gfig'), before = box();
  const was = before && before.getBoundingClientRect();
  if (!opened.delete(i)) opened.add(i);
  redraw(drawGraph);
  const now = box() && box().getBoundingClientRect();
  if (was && now) {
    frame.scrollTop += now.top - was.top;
    frame.scrollLeft += now.left + now.width / 2 - was.left - was.width / 2;
  }
  mark();
}

/* Zooms by a factor; 0 fits the width of the frame. */
function zoomGraph(factor) {
  const frame = el('gfig'), whole = find('svg', frame).viewBox.baseVal.width;
  zoom = factor ? Math.min(2, Math.max(.25, zoom * factor)) : Math.min(1, (frame.clientWidth - 4) / whole);
  redraw(drawGraph);
  mark();
}

function showInGraph(i) {
  for (let p = parent[i]; p > 0; p = parent[p]) opened.add(p);
  redraw(drawGraph);
  el('graph').scrollIntoView();
  select(i);
}

/* ---- Side panel: all numbers of the selected place, and their formulas ---- */

const FORMULA_OF = ['MACs', 'FLOPs', 'DMAs', 'bytes read', 'bytes written'];
const FORMULAS_OF_METRIC = {macs: [0], flops: [1], bytes: [3, 4]};
const formulaHtml = f => esc(f).replace(/(\d),(?=\d{3}(?!\d))/g, '$1\u202f')
  .replace(/([a-z_]+)/g, '<b>$1</b>').replace(/\*/g, ' × ').replace(/\+/g, ' + ');

/* The formulas of one operator; `wanted`: the metrics to show. */
function formulasHtml([phaseOf, name, formulas], wanted, hot) {
  const lines = formulas.filter(f => wanted.includes(f[0])).map(([m, formula, filled, value]) =>
    `<div class="f"><span class="dim">${FORMULA_OF[m]}</span> = ${formulaHtml(S[formula])}<br>` +
    `<span class="dim">=</span> ${formulaHtml(S[filled])} = <b>${value === null ? '?' : exact(value)}</b>` +
    '</div>');
  if (!lines.length) return '';
  return `<div class="why${hot ? ' hot' : ''}"><b>${show(S[name].replace('aten::', ''), 80)}</b> ` +
    `<span class="dim">${PHASES[phaseOf]}</span>${lines.join('')}</div>`;
}

/* The text in place of formulas, if there are none. */
function withoutFormulas(i) {
  if (METRICS.some(m => FORMULAS_OF_METRIC[m.name] && ownAt(m, i))) {
    return `<code>lamina why ${show(pathOf(i), 160)}</code> prints how they come about.`;
  }
  if (changeOf(i).word === 'removed') return 'The report before alone has this module.';
  return kids[i].length ? 'No operator of its own: the numbers are the sum of the modules inside.' :
    'No operator that counts ran here.';
}

/* Operators that compute first, then those that only move bytes. */
function whyHtml(i, key) {
  const block = data.formulas[data.formulas_of[i]];
  if (!block) return `<p class="dim">${withoutFormulas(i)}</p>`;
  const wanted = FORMULAS_OF_METRIC[key];
  const asked = wanted ? block.filter(g => !g[0] || phase).map(g => formulasHtml(g, wanted, true)) : [];
  if (asked.some(Boolean)) return asked.join('');
  const computes = g => g[2].some(f => f[0] < 2), html = g => formulasHtml(g, [0, 1, 3, 4], false);
  const moving = block.filter(g => !computes(g));
  const summary = `${plural(moving.length, 'operator that only moves', 'operators that only move')} bytes`;
  return block.filter(computes).map(html).join('') + (moving.length ?
    `<details class="why"><summary>${summary}</summary>${moving.map(html).join('')}</details>` : '');
}

function drawPanel(why) {
  const panel = find('aside'), i = selected, fact = (name, value, title = '') =>
    `<dt>${name}</dt><dd${title && ` title="${title}"`}>${value}</dd>`;
  panel.classList.toggle('on', i >= 0);
  if (i < 0) {
    panel.innerHTML = '<h2>Nothing selected</h2><p class="dim">Select a module in any section: it is ' +
      'marked in all of them, and here stand its numbers and their formulas. <kbd>?</kbd> lists keys.</p>';
    return;
  }
  const calls = callsOf(i), speed = data.speeds[i], held = data.held[i] || [];
  const both = memoryData && before?.held, heldBefore = both && both[i] || [], old = oldPathOf(i);
  const drawn = levelOf(0);
  const change = changeOf(i).word + (old === null ? '' : `, was <bdi>${show(old, 160)}</bdi>`);
  const kind = [`<bdi>${show(typeOf(i), 60)}</bdi>`, change, statusOf(i),
    calls > 1 && calls + ' calls'];
  const facts = [];
  if (data.inputs[i]) facts.push(fact('in', show(S[data.inputs[i]], 200)));
  if (data.outputs[i]) facts.push(fact('out', show(S[data.outputs[i]], 200)));
  for (const m of METRICS) {
    const total = totalOf(m), own = ownAt(m, i);
    const alone = kids[i].length && own ? `<br><span class="dim">own ${m.format(own)}</span>` : '';
    const part = before ? fromTo(m, i) :
      `${valueText(m, i)} <span class="dim">${share(total[i], total[0])}</span>`;
    const apart = before ? exactDifference(numberBefore(m, [i]), toShow(m, i)) : '';
    facts.push(fact(m.title, part + alone, exactText(total[i], stateAt(m, i)) + apart));
  }
  if (speed) {
    const [intensity, reached, bound] = speed;
    facts.push(fact('intensity', intensity), fact('reached', reached), fact('bound by', bound));
  }
  data.categories.forEach((category, k) => {
    const b = held[k] || 0, was = heldBefore[k] || 0;
    const from = both && was !== b ? `<span class="dim">${bytes(was)} →</span> ` : '';
    if (b || from) facts.push(fact(`<i class="sw g${k}"></i>${category}`, from + bytes(b), exact(b)));
  });
  panel.innerHTML = '<button class="close" data-clear="1" aria-label="clear the selection">✕</button>' +
    `<h2><bdi>${show(pathOf(i), 160)}</bdi></h2><p class="dim">${kind.filter(Boolean).join(' · ')}</p>` +
    `<dl>${facts.join('')}</dl>` +
    `<p>${kids[i].length ? `<button data-top="${i}">icicle from here</button> ` : ''}` +
    `${drawn ? `<button data-graph="${i}">show in the graph</button>` : ''}</p>` +
    `<h3>Why these numbers</h3>${whyHtml(i, why)}`;
  panel.scrollTop = 0;
}

/* ---- Controls ---- */

function drawControls() {
  const button = (name, value, on, words) =>
    `<button data-${name}="${value}" aria-pressed="${on}">${words}</button>`;
  el('bym').innerHTML = METRICS.map(m => button('by', m.name, m === metric, m.title)).join('');
  el('phase').hidden = !hasBackward;
  el('phase').innerHTML = button('phase', 0, !phase, 'forward') + button('phase', 1, !!phase, '+ backward');
}

/* Draws everything that depends on the metric and the phase. */
function drawAll(why = null) {
  redraw(() => {
    drawControls();
    drawTiles();
    drawRows();
    drawIcicle();
    drawGraph();
    drawPanel(why);
  });
  mark();
  writeAddress();
}

function setMetric(m) {
  metric = m || metric;
  drawAll();
}

function setPhase(p) {
  phase = hasBackward ? p : 0;
  drawAll();
}

function switchTheme() {
  const root = document.documentElement;
  const now = root.dataset.theme || (matchMedia('(prefers-color-scheme:dark)').matches ? 'dark' : 'light');
  root.dataset.theme = now === 'dark' ? 'light' : 'dark';
}

/* ---- Keys ---- */

const KEYS = [
  ['1 … 7', 'a section'], ['/', 'search modules: a regular expression over paths and types'],
  ['m', 'the next metric, in all pictures'], ['b', 'with or without the backward'], ['t', 'light or dark'],
  ['↑ ↓', 'table: rows; icicle and graph: what holds a module, what is inside it'],
  ['← →', 'table: close and open; icicle and graph: siblings; memory: points of time'],
  ['Home End', 'table: first and last row'],
  ['Enter', 'table: select; icicle: zoom, at the top out again; graph: open and close'],
  ['+ − 0', 'graph: larger, smaller, fit'],
  ['Esc', 'end the search, clear the selection'], ['?', 'this list']];

function showKeys() {
  const names = keys => keys.split(' ').map(k => k === '…' ? k : `<kbd>${k}</kbd>`).join(' ');
  const list = KEYS.map(([keys, what]) => `<dt>${names(keys)}</dt><dd>${what}</dd>`).join('');
  el('help').innerHTML = `<h2>Keys</h2><dl>${list}</dl>` +
    '<form method="dialog"><button autofocus>close</button></form>';
  el('help').showModal();
}

/* Handles a key in the table; true if the table uses it. */
function keyInTable(key, row) {
  const i = +row.dataset.i, rows = el('rows'), opens = kids[i].length && !pattern;
  const rowOf = j => find(`#rows > [data-i="${j}"]`);
  const next = {
    ArrowDown: () => row.nextElementSibling, ArrowUp: () => row.previousElementSibling,
    Home: () => rows.firstElementChild, End: () => rows.lastElementChild, Enter: () => row, ' ': () => row,
    ArrowRight: () => opens && !open[i] ? (toggleRow(i), rowOf(i)) : opens ? row.nextElementSibling : row,
    ArrowLeft: () => opens && open[i] ? (toggleRow(i), rowOf(i)) : rowOf(standInRow(i)) || row}[key];
  if (!next) return false;
  const to = next();
  if (to) select(+to.dataset.i, {from: 'rows', focus: true});
  return true;
}

/* The place of the nearest row above a place: its container, or the first of its run. */
function standInRow(i) {
  for (let p = parent[i]; p >= 0; p = parent[p]) if (find(`#rows > [data-i="${p}"]`)) return p;
  return 0;
}

/* The place that an arrow leads to in the icicle and in the graph, or undefined. */
function neighbour(i, key, inGraph) {
  const drawn = j => inGraph ? kids[j] : runsOf(j).map(run => run[0])
    .filter(c => REPORTS.some(of => totalOf(metric, of)[c] > 0));
  const p = parent[i], around = p < 0 ? [0] : drawn(p), k = around.indexOf(inGraph ? i : standIn(i));
  if (key === 'ArrowLeft') return around[k - 1];
  if (key === 'ArrowRight') return around[k + 1];
  const closed = inGraph && i && !opened.has(i); // such a node has the next one below it
  if (key === 'ArrowDown') return closed ? around[k + 1] : drawn(i)[0];
  return closed && k > 0 ? around[k - 1] : p < 0 ? undefined : p;
}

function keyInPicture(key, figure) {
  const inGraph = figure.id === 'gfig', i = selected < 0 ? top : selected;
  if (figure.id === 'mfig') {
    if (!course || !/^Arrow(Left|Right)$/.test(key)) return false;
    drawCross(Math.max(0, Math.min(memoryData.times.length - 1, point + (key === 'ArrowRight' ? 1 : -1))));
  } else if (key === 'Enter' || key === ' ') {
    if (inGraph) toggleOpen(i);
    else zoomIcicle(top === i || !kids[i].length ? Math.max(0, parent[top]) : i);
  } else if (/^Arrow/.test(key)) {
    const to = neighbour(i, key, inGraph);
    if (to !== undefined && !inGraph && !isIn(to, top)) zoomIcicle(Math.max(0, parent[top]));
    if (to !== undefined) select(to);
  } else if (inGraph && '+-0'.includes(key)) zoomGraph({'+': 1.25, '-': .8, 0: 0}[key]);
  else return false;
  return true;
}

const shortcuts = {
  '/': () => { el('modules').scrollIntoView(); el('find').focus(); },
  '?': showKeys, Escape: () => select(-1), b: () => setPhase(1 - phase), t: switchTheme,
  m: () => setMetric(METRICS[(METRICS.indexOf(metric) + 1) % METRICS.length])};

function onKey(event) {
  const {key, target} = event;
  if (event.ctrlKey || event.metaKey || event.altKey || el('help').open) return;
  if (target.id === 'find') {
    if (key === 'Escape') { target.value = ''; search(target); roving.focus(); }
    return;
  }
  const row = target.parentNode && target.parentNode.id === 'rows' ? target : null;
  const figure = target.closest('#ifig,#gfig,#mfig');
  const section = /^[1-9]$/.test(key) && findAll('main > section')[key - 1];
  if (row && keyInTable(key, row) || figure && keyInPicture(key, figure)) event.preventDefault();
  else if (section) section.scrollIntoView();
  else if (shortcuts[key]) { event.preventDefault(); shortcuts[key](); }
}

/* ---- Pointer. Clicks on elements with one of these attributes ---- */

const clicks = {
  by: name => setMetric(METRICS.find(m => m.name === name)), phase: p => setPhase(+p),
  sort: name => sortBy(METRICS.find(m => m.name === name)), clear: () => select(-1),
  unfold: i => { unfolded.add(+i); redraw(drawRows); },
  more: () => { rowsShown += ROWS_AT_A_TIME; redraw(drawRows); },
  top: i => zoomIcicle(+i), graph: i => showInGraph(+i),
  open: i => { toggleOpen(+i); select(+i, {from: 'gfig'}); }};
const buttons = {
  theme: switchTheme, keys: showKeys,
  zin: () => zoomGraph(1.25), zout: () => zoomGraph(.8), zfit: () => zoomGraph(0),
  gall: () => { opened.clear(); redraw(drawGraph); mark(); }};

function onClick(event) {
  const target = event.target, button = target.closest('button');
  if (button && buttons[button.id]) { buttons[button.id](); return; }
  for (const name in clicks) {
    const e = target.closest(`[data-${name}]`);
    if (e) { clicks[name](e.dataset[name]); return; }
  }
  const link = target.closest('a');
  if (link) { // a link to the address that is shown already would not change it
    const i = placeOf(link.hash);
    if (i >= 0) { event.preventDefault(); select(i); }
    return;
  }
  const e = target.closest('[data-i]');
  if (!e) return;
  const i = +e.dataset.i, inTable = e.parentNode.id === 'rows', cell = target.closest('td[data-m]');
  if (inTable && target.closest('.tw') && kids[i].length) toggleRow(i);
  const figure = e.closest('.fig'), from = inTable ? 'rows' : figure ? figure.id : '';
  select(i, {from, why: cell && cell.dataset.m, focus: inTable});
}

function onDoubleClick(event) {
  const e = event.target.closest('[data-i]');
  if (!e || event.target.closest('button,[data-open]')) return;
  const i = +e.dataset.i;
  if (e.closest('#ifig')) zoomIcicle(kids[i].length && i !== top ? i : Math.max(0, parent[top]));
  else if (e.closest('#gfig')) toggleOpen(i);
  else if (e.parentNode.id === 'rows' && kids[i].length && !event.target.closest('.tw')) toggleRow(i);
}

function onPointer(event) {
  const e = event.target.closest('[data-i]'), i = e ? +e.dataset.i : -1;
  const node = event.target.closest('[data-line],[data-node]');
  if (i !== hovered || find('.lit') || node) { hovered = i; mark(); }
  if (node) markLines(node.dataset.node || node.dataset.from || node.dataset.to);
}

/* Calls once, after some milliseconds without an event. */
function later(milliseconds, call) {
  let timer = 0;
  return event => { clearTimeout(timer); timer = setTimeout(() => call(event), milliseconds); };
}

/* ---- Start ---- */

let drawnWidth = innerWidth;
function onResize() {
  if (innerWidth === drawnWidth) return;
  drawnWidth = innerWidth;
  redraw(drawIcicle);
  mark();
}

function start() {
  const asked = readAddress();
  find('#tscroll table').setAttribute('role', 'treegrid');
  openFirstLevels();
  drawAll();
  const graph = el('gfig');
  if (graph) graph.scrollLeft = (graph.scrollWidth - graph.clientWidth) / 2;
  for (const a of findAll('header nav a')) if (!el(a.hash.slice(1))) a.remove();
  document.addEventListener('click', onClick);
  document.addEventListener('dblclick', onDoubleClick);
  document.addEventListener('mouseover', onPointer);
  document.addEventListener('keydown', onKey);
  addEventListener('resize', later(150, onResize));
  addEventListener('hashchange', () => {
    const i = readAddress();
    if (i < 0) return;
    drawAll();
    select(i);
  });
  el('find').addEventListener('input', later(80, event => search(event.target)));
  if (course) {
    for (const type of ['pointermove', 'pointerdown']) el('mfig').addEventListener(type, moveCross);
    el('mfig').addEventListener('pointerleave', () => drawCross(-1));
  }
  starting = false;
  if (asked >= 0) select(asked);
  else writeAddress();
}
start();
})();
