#include "reports/page.hpp"

namespace parity::reports::page {

std::string_view script() {
  return R"js(
'use strict';
const $ = (q, of) => [...(of || document).querySelectorAll(q)];
const filter = document.getElementById('filter'), shown = document.getElementById('shown'), toast = document.getElementById('toast');
const cases = [], groups = $('details.group');
const rows = $('.matrix tr, #mutants tr, #ledger tr').filter(el => el.querySelector('td')).map(el => ({el, text: el.textContent.toLowerCase()}));
const total = +document.getElementById('cases').dataset.total;

// Groups are packed (gzip in base64): a part is set in when its group is opened, filtered or linked to.
let parts = null;
const ready = (async () => {
  const text = document.getElementById('packed').textContent;
  if (!text) return;
  try {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    parts = (await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text()).split('\x1e');
  } catch (e) { $('.in[data-part]').forEach(box => box.textContent = 'This browser cannot unpack these cases (' + e.message + '); records.jsonl beside the page holds them.'); }
})();
function adopt(of) { for (const el of $('details.case', of)) cases.push({el, text: (el.id + ' ' + el.querySelector('summary').textContent).toLowerCase()}); }
function fill(group) {
  const box = group.querySelector('.in[data-part]');
  if (!box || !parts) return;
  box.innerHTML = parts[box.dataset.part];
  box.removeAttribute('data-part');
  adopt(box);
}
adopt(document);
addEventListener('toggle', e => { if (e.target.matches('details.group[open]')) ready.then(() => fill(e.target)); }, true);

// Every word must occur; a word that begins with '-' must not.
function match(text, words) { return words.every(w => w[0] === '-' && w.length > 1 ? !text.includes(w.slice(1)) : text.includes(w)); }
async function apply() {
  await ready;
  if (filter.value.trim()) groups.forEach(fill);
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const c of cases) { const hit = match(c.text, words); c.el.hidden = !hit; n += hit; }
  for (const r of rows) r.el.hidden = !match(r.text, words);
  for (const g of groups) {
    const any = !words.length || $('details.case', g).some(el => !el.hidden);
    g.hidden = !any;
    g.open = words.length > 0 && any && n <= 400;
  }
  shown.textContent = words.length ? n + ' of ' + total + ' cases' : '';
}
let waiting = 0;
filter.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(apply, 80); });

// Permalinks: #<id> opens the case and what it lies in.
async function go() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch (e) { return; }
  let el = document.getElementById(id);
  if (!el && id) { await ready; groups.forEach(fill); el = document.getElementById(id); }
  $('.here').forEach(e => e.classList.remove('here'));
  if (!el) return;
  el.hidden = false;
  for (let p = el; p; p = p.parentElement) if (p.tagName === 'DETAILS') { p.open = true; p.hidden = false; }
  if (el.classList.contains('case')) el.classList.add('here');
  el.scrollIntoView();
}
addEventListener('hashchange', go);

// A square of the matrix says what it is when it is pointed at or focused.
function tip(e) {
  const a = e.target.closest && e.target.closest('.sq a[href]');
  if (!a || a.title) return;
  const status = a.className[0] === 's' ? 'pass' : a.className === 'x-expected' ? 'fails as it must' : a.className.slice(2);
  a.title = status + ': ' + decodeURIComponent(a.hash.slice(1)) + (a.dataset.u ? ', ' + a.dataset.u + ' of the bound' : '');
}
addEventListener('mouseover', tip); addEventListener('focusin', tip);

// A readable fragment: what need not be escaped stays as it is.
function frag(id) { return '#' + encodeURIComponent(id).replace(/%(?:2F|2C|3D|40|2B|3A)/g, decodeURIComponent); }
function say(words) { toast.textContent = words; toast.classList.add('on'); setTimeout(() => toast.classList.remove('on'), 1200); }
async function copy(text) {
  try { await navigator.clipboard.writeText(text); }
  catch (e) {  // pages opened from a file may not use the clipboard directly
    const area = document.createElement('textarea');
    area.value = text; document.body.append(area); area.select(); document.execCommand('copy'); area.remove();
  }
  say('copied');
}
document.addEventListener('click', e => {
  const button = e.target.closest('button[data-copy]');
  if (button) copy(button.parentElement.querySelector('code').textContent);
  const link = e.target.closest('button[data-link]');
  if (link) { e.preventDefault(); history.replaceState(null, '', frag(link.closest('details').id)); go(); copy(location.href); }
});

const root = document.documentElement, themes = ['auto', 'light', 'dark'];
function theme(name) {
  if (name === 'auto') root.removeAttribute('data-theme'); else root.setAttribute('data-theme', name);
  document.getElementById('theme').textContent = name;
  try { localStorage.setItem('parity-theme', name); } catch (e) { /* storage may be off */ }
}
let now = 'auto';
try { now = localStorage.getItem('parity-theme') || 'auto'; } catch (e) { /* storage may be off */ }
theme(themes.includes(now) ? now : 'auto');
document.getElementById('theme').addEventListener('click', e => theme(themes[(themes.indexOf(e.target.textContent) + 1) % 3]));

function step(by) {
  const visible = $('details.case').filter(el => el.offsetParent !== null);
  if (!visible.length) return;
  const at = visible.findIndex(el => el.classList.contains('here'));
  const next = visible[(at < 0 ? (by > 0 ? 0 : visible.length - 1) : at + by + visible.length) % visible.length];
  history.replaceState(null, '', frag(next.id));
  go();
}
addEventListener('keydown', e => {
  if (e.target === filter) { if (e.key === 'Escape') { filter.value = ''; apply(); filter.blur(); } return; }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === '/') { e.preventDefault(); filter.focus(); filter.select(); }
  if (e.key === 'n') step(1);
  if (e.key === 'p') step(-1);
});
go();
)js";
}

}  // namespace parity::reports::page
