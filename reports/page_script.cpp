#include "reports/page.hpp"

namespace parity::reports::page {

std::string_view script() {
  return R"js(
'use strict';
const $ = (q, of) => [...(of || document).querySelectorAll(q)];
const filter = document.getElementById('filter'), shown = document.getElementById('shown'), toast = document.getElementById('toast');
const cases = $('details.case').map(el => ({el, text: (el.id + ' ' + el.querySelector('summary').textContent).toLowerCase()}));
const groups = $('details.group');
const rows = $('tr[data-row]').map(el => ({el, text: el.textContent.toLowerCase()}));

// Every word must occur; a word that begins with '-' must not.
function match(text, words) { return words.every(w => w[0] === '-' && w.length > 1 ? !text.includes(w.slice(1)) : text.includes(w)); }
function apply() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const c of cases) { const hit = match(c.text, words); c.el.hidden = !hit; n += hit; }
  for (const r of rows) r.el.hidden = !match(r.text, words);
  for (const g of groups) {
    const any = $('details.case', g).some(el => !el.hidden);
    g.hidden = !any;
    g.open = words.length > 0 && any && n <= 400;
  }
  shown.textContent = words.length ? n + ' of ' + cases.length + ' cases' : '';
}
let waiting = 0;
filter.addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(apply, 80); });

// Permalinks: #<id> opens the case and what it lies in.
function go() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch (e) { return; }
  const el = document.getElementById(id);
  $('.here').forEach(e => e.classList.remove('here'));
  if (!el) return;
  el.hidden = false;
  for (let p = el; p; p = p.parentElement) if (p.tagName === 'DETAILS') { p.open = true; p.hidden = false; }
  if (el.classList.contains('case')) el.classList.add('here');
  el.scrollIntoView();
}
addEventListener('hashchange', go);

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
  if (link) { e.preventDefault(); const hash = '#' + encodeURIComponent(link.closest('details').id); history.replaceState(null, '', hash); go(); copy(location.href); }
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
  history.replaceState(null, '', '#' + encodeURIComponent(next.id));
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
