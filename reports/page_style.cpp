#include "reports/page.hpp"

namespace parity::reports::page {

// Shares of the bound run from a pale to a deep blue-green; what is over the bound leaves that
// scale for red, and carries a mark besides, so that no verdict is told by colour alone.
std::string_view style() {
  return R"css(
:root{color-scheme:light;--bg:#fbfbfa;--card:#fff;--ink:#1b1f23;--soft:#5b6570;--line:#e2e4e7;--link:#0b62c4;--code:#f3f4f5;
--pass:#1a7f4b;--fail:#c62828;--error:#8e24aa;--unproven:#b26a00;--unsupported:#7a838c;--waived:#8a6d00;--pass-bg:#e3f4ea;--fail-bg:#fde7e7;
--s0:#eaf3f3;--s1:#d3e8e7;--s2:#b4d9d7;--s3:#8cc4c2;--s4:#5aa7a6;--s5:#2b8385;--s6:#f2a28d;--s7:#df5b48;--s8:#b3122a;
--n0:#d5dfe8;--n1:#a3bacf;--n2:#6489ab;--n3:#2f5a85;--bars:#3f8f90;--bound:#c62828;--base:#8a6d3b}
:root[data-theme=dark]{color-scheme:dark;--bg:#14171a;--card:#1b1f23;--ink:#e6e8ea;--soft:#9aa4ae;--line:#30363c;--link:#6cb2ff;--code:#23282d;
--pass:#5ccf8f;--fail:#ff7b72;--error:#d597ea;--unproven:#f0b15a;--unsupported:#98a1aa;--waived:#d8bd5a;--pass-bg:#12301f;--fail-bg:#3a1719;
--s0:#263336;--s1:#25403f;--s2:#234d4f;--s3:#256668;--s4:#2b8385;--s5:#4fb0b0;--s6:#a4513f;--s7:#e0604c;--s8:#ff8f80;
--n0:#26323d;--n1:#34506a;--n2:#4f7fae;--n3:#8fc1f2;--bars:#4fb0b0;--bound:#ff7b72;--base:#d8bd5a}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;--bg:#14171a;--card:#1b1f23;--ink:#e6e8ea;--soft:#9aa4ae;--line:#30363c;--link:#6cb2ff;--code:#23282d;
--pass:#5ccf8f;--fail:#ff7b72;--error:#d597ea;--unproven:#f0b15a;--unsupported:#98a1aa;--waived:#d8bd5a;--pass-bg:#12301f;--fail-bg:#3a1719;
--s0:#263336;--s1:#25403f;--s2:#234d4f;--s3:#256668;--s4:#2b8385;--s5:#4fb0b0;--s6:#a4513f;--s7:#e0604c;--s8:#ff8f80;
--n0:#26323d;--n1:#34506a;--n2:#4f7fae;--n3:#8fc1f2;--bars:#4fb0b0;--bound:#ff7b72;--base:#d8bd5a}}
*{box-sizing:border-box}
html{scroll-padding-top:64px}
body{margin:0;background:var(--bg);color:var(--ink);font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
code,.mono,td.n,th.n{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:12.5px}
header.top{position:sticky;top:0;z-index:5;display:flex;gap:18px;align-items:center;padding:9px 28px;background:var(--card);border-bottom:1px solid var(--line)}
header.top b{font-size:16px;letter-spacing:-.01em}
header.top nav{display:flex;gap:14px;flex:1;flex-wrap:wrap}
header.top nav a{color:var(--soft)}
header.top input{width:300px;max-width:36vw;padding:6px 10px;border:1px solid var(--line);border-radius:7px;background:var(--bg);color:var(--ink);font:inherit}
header.top input:focus{outline:2px solid var(--link);outline-offset:-1px}
button{font:inherit;font-size:12.5px;color:var(--soft);background:var(--card);border:1px solid var(--line);border-radius:6px;padding:2px 9px;cursor:pointer}
button:hover{color:var(--ink);border-color:var(--soft)}
main{max-width:1320px;margin:0 auto;padding:22px 28px 80px}
h1{font-size:25px;line-height:1.25;letter-spacing:-.02em;margin:2px 0 6px}
h2{font-size:18px;letter-spacing:-.01em;margin:38px 0 4px}
h3{font-size:14.5px;margin:20px 0 6px}
p{margin:4px 0 10px;max-width:88ch}.soft{color:var(--soft)}
.verdict{padding:20px 24px;background:var(--card);border:1px solid var(--line);border-left:6px solid var(--pass);border-radius:10px}
.verdict.bad{border-left-color:var(--fail)}.verdict.weak{border-left-color:var(--unproven)}
.counts{display:flex;gap:10px;flex-wrap:wrap;margin:14px 0 4px}
.count{min-width:104px;padding:7px 13px;border:1px solid var(--line);border-radius:8px;background:var(--bg)}
.count b{display:block;font-size:21px;line-height:1.2;font-variant-numeric:tabular-nums}
.counts+p{margin-top:14px}ul.top{list-style:none;margin:14px 0 8px;padding:0}ul.top li{margin:3px 0;overflow-wrap:anywhere}ul.top .soft{margin-left:8px}.count.zero{opacity:.5}
.pass{color:var(--pass)}.fail,.survived{color:var(--fail)}.error{color:var(--error)}.unproven{color:var(--unproven)}.unsupported{color:var(--unsupported)}.waived{color:var(--waived)}.killed{color:var(--pass)}.expected{color:var(--soft)}
.badge{display:inline-block;min-width:44px;padding:0 7px;border-radius:5px;border:1px solid currentColor;font-size:11.5px;line-height:18px;text-align:center;font-weight:600}
.badge.fail,.badge.survived{background:var(--fail-bg)}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:4px 16px 14px;overflow-x:auto;margin-top:8px}
table{border-collapse:collapse;width:100%;margin:6px 0;font-size:13px}
th{text-align:left;font-weight:600;color:var(--soft);font-size:12px;white-space:nowrap}
th,td{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child>td{border-bottom:0}td.n+td:not(.n),th.n+th:not(.n){padding-left:14px}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px;white-space:nowrap}
td.id{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px;overflow-wrap:anywhere}
.matrix{width:auto}.matrix th.k{vertical-align:bottom;padding-right:16px;line-height:1.3}.matrix td{padding:3px 16px 3px 0}.matrix td.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px;white-space:nowrap}
.matrix td.id{white-space:nowrap}#mutants td:nth-child(2){white-space:nowrap}#mutants td:nth-child(3){min-width:250px}#mutants td:last-child{min-width:300px}
.sq{display:flex;flex-wrap:wrap;gap:2px;max-width:232px}
.sq.wide{max-width:760px}
.sq a{width:13px;height:13px;border-radius:3px;font:700 10px/13px system-ui;text-align:center;color:#fff;text-decoration:none}
.sq .s0,.sq .s1,.legend .s0,.legend .s1{box-shadow:inset 0 0 0 1px var(--line)}
.sq a:hover,.sq a:focus{outline:2px solid var(--ink)}
.s0{background:var(--s0)}.s1{background:var(--s1)}.s2{background:var(--s2)}.s3{background:var(--s3)}.s4{background:var(--s4)}.s5{background:var(--s5)}.s6{background:var(--s6)}.s7{background:var(--s7)}.s8{background:var(--s8)}
.sq .x-fail{background:var(--fail)}.sq .x-error{background:var(--error)}.sq .x-unproven{background:var(--unproven)}.sq .x-waived{background:var(--waived)}.sq .x-unsupported{background:none;border:1px dashed var(--unsupported)}
:root[data-theme=dark] .sq a{color:#14171a}@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .sq a{color:#14171a}}
.sq a.x-expected{background:none;border:1px solid var(--fail);color:var(--fail)!important;line-height:11px}
.legend{display:flex;flex-wrap:wrap;gap:5px 16px;align-items:center;color:var(--soft);font-size:12px;margin:6px 0 2px}
.legend i{display:inline-block;width:13px;height:13px;border-radius:3px;margin-right:5px;vertical-align:-2px}
.legend .sq{display:inline-flex;vertical-align:-2px;margin-right:5px}
details.case{border:1px solid var(--line);border-radius:8px;background:var(--card);margin:5px 0}
details.case[open]{border-color:var(--soft)}
details.case:target,details.case.here{outline:2px solid var(--link)}
details.case>summary{display:flex;gap:12px;align-items:center;padding:6px 13px;cursor:pointer;list-style:none}
details.case>summary::-webkit-details-marker{display:none}
summary:focus-visible{outline:2px solid var(--link);border-radius:8px}
details.case>summary code{flex:1;overflow-wrap:anywhere}
details.case>summary .tag{color:var(--soft);font-size:12px;white-space:nowrap}
details.group{margin:8px 0}
details.group>summary{display:flex;gap:12px;align-items:center;padding:7px 13px;cursor:pointer;background:var(--card);border:1px solid var(--line);border-radius:8px}
details.group>summary b{font-weight:600}details.group>summary .soft{margin-left:auto}
details.group>.in{padding:2px 0 4px 16px;border-left:2px solid var(--line);margin-left:14px}
.body{padding:2px 16px 14px;border-top:1px solid var(--line)}
.body dl{display:grid;grid-template-columns:108px 1fr;gap:3px 14px;margin:10px 0}
dl{margin:8px 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
dl.why{display:grid;grid-template-columns:28px 1fr;gap:6px 10px;max-width:110ch}
.env dl{display:grid;grid-template-columns:180px 1fr;gap:3px 14px}
.repro{display:flex;gap:10px;align-items:flex-start}
.repro code{background:var(--code);padding:4px 9px;border-radius:6px;overflow-wrap:anywhere}
.bar{display:inline-flex;align-items:center;gap:7px;white-space:nowrap;font-variant-numeric:tabular-nums;font-size:12px}
.bar i{display:inline-block;width:74px;height:7px;border-radius:4px;background:linear-gradient(var(--s5),var(--s5)) 0 0/var(--v) 100% no-repeat,var(--line)}
.bar.over i{background:var(--fail)}.bar.over{color:var(--fail);font-weight:600}
.tensor{margin:14px 0 4px;padding-top:10px;border-top:1px dashed var(--line)}
.tensor h4{margin:0 0 4px;font-size:13.5px}
.two{display:grid;grid-template-columns:minmax(0,9fr) minmax(0,11fr);gap:0 34px;align-items:start}@media (max-width:1100px){.two{grid-template-columns:1fr}}
.pics{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:6px 18px;margin:8px 0}
figure{margin:0}figcaption{font-size:12px;color:var(--soft);margin-bottom:1px}
svg{display:block;width:100%;height:auto;max-width:420px;font-family:system-ui,sans-serif}
svg .frame{fill:none;stroke:var(--line)}svg .tick{font-size:9.5px;fill:var(--soft)}svg .title{font-size:10.5px;fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:.5;opacity:.7}svg .chunk{stroke:var(--soft);stroke-width:.6;stroke-dasharray:2 2;fill:none;opacity:.8}
svg .bars{fill:var(--bars)}svg .over{fill:var(--fail)}svg .bound{stroke:var(--bound);stroke-width:1.4;fill:none}svg .base{stroke:var(--base);stroke-width:1.2;fill:none}
svg .n0{fill:var(--n0)}svg .n1{fill:var(--n1)}svg .n2{fill:var(--n2)}svg .n3{fill:var(--n3)}
svg path.s0{stroke:var(--s0)}svg path.s1{stroke:var(--s1)}svg path.s2{stroke:var(--s2)}svg path.s3{stroke:var(--s3)}svg path.s4{stroke:var(--s4)}svg path.s5{stroke:var(--s5)}svg path.s6{stroke:var(--s6)}svg path.s7{stroke:var(--s7)}svg path.s8{stroke:var(--s8)}
.body td.name{white-space:normal;overflow-wrap:anywhere;min-width:210px}
details.more>summary{cursor:pointer;color:var(--soft);font-size:12.5px;padding:3px 0}
.waterfall svg{max-width:860px}
.legend i.bar-n1{background:var(--n1)}.legend i.bar-own{background:var(--bars)}.legend i.bar-over{background:var(--fail)}.legend i.bar-budget{background:var(--bound);height:2px;border-radius:0;vertical-align:3px}
.toast{position:fixed;bottom:22px;left:50%;transform:translateX(-50%);background:var(--ink);color:var(--bg);padding:7px 16px;border-radius:8px;opacity:0;transition:opacity .15s;pointer-events:none}
.toast.on{opacity:1}
kbd{border:1px solid var(--line);border-bottom-width:2px;border-radius:4px;padding:0 5px;font-size:11px;background:var(--bg)}
[hidden]{display:none!important}
@media (max-width:800px){main{padding:14px}header.top{padding:8px 14px}header.top nav{display:none}.body dl,.env dl{grid-template-columns:1fr}.body table{display:block;overflow-x:auto}.body dt{margin-top:5px}
details.case>summary{flex-wrap:wrap;gap:4px 10px}details.case>summary code{flex:1 0 70%}details.group>summary{flex-wrap:wrap;gap:4px 10px}details.group>.in{margin-left:0;padding-left:8px}.repro{flex-wrap:wrap}.pics{grid-template-columns:1fr}.verdict{padding:14px}}
@media print{header.top,button{display:none}}
)css";
}

}  // namespace parity::reports::page
