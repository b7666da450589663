"""The style sheet and the script of the HTML report. The page reads without the script."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--page:#fbfaf8;--card:#fff;--ink:#1d1e20;--soft:#5c6066;
--line:#e4e1db;--code:#f4f2ee;--copper:#a2561f;--good:#17724a;--bad:#b3261e;--mid:#8a5a00;
--good-wash:#eaf5ef;--bad-wash:#fbedeb;--mid-wash:#fbf3e2;
--z0:#f3efe8;--z1:#ece3d4;--z2:#e6d3b5;--z3:#f0bb84;--z4:#e8925a;--z5:#d9643c;--z6:#b93a2b;
--z7:#85181d;--z8:#1d1e20;
--sans:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",Arial,sans-serif;
--mono:ui-monospace,SFMono-Regular,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{--page:#131416;--card:#1b1d20;--ink:#e9e6e0;
--soft:#a0a3a8;--line:#303338;--code:#232529;--copper:#dd965d;--good:#5fc894;--bad:#ff8a7e;
--mid:#e2b45a;--good-wash:#16261e;--bad-wash:#2c1b1a;--mid-wash:#2a2315;
--z0:#22252a;--z1:#2b2d31;--z2:#3b352f;--z3:#5e4632;--z4:#8d5530;--z5:#bd6231;--z6:#e57443;
--z7:#ffac7c;--z8:#fff}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 var(--sans);
font-variant-numeric:tabular-nums}
main{max-width:68rem;margin:0 auto;padding:1.75rem 1.25rem 4rem}
a{color:var(--copper);text-underline-offset:.2em}
h1,h2,h3,p,dl,dd,figure,pre,ul{margin:0}
h2{font-size:1.3rem;line-height:1.3;letter-spacing:-.012em;margin:2.75rem 0 .9rem}
h3{font-size:.82rem;font-weight:600;color:var(--soft);margin:0 0 .5rem}
p,li,dd{overflow-wrap:anywhere}
code,pre,.mono{font-family:var(--mono);font-size:.86em}
.top{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:baseline;color:var(--soft);
font-size:.9rem;margin-bottom:1.25rem}
.top b{color:var(--copper);letter-spacing:-.01em}
.top span{overflow-wrap:anywhere}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:1.25rem 1.4rem}
.hero{border-left:6px solid var(--tone);padding:1.5rem 1.6rem 1.6rem}
.good{--tone:var(--good);--wash:var(--good-wash)}.bad{--tone:var(--bad);--wash:var(--bad-wash)}
.mid{--tone:var(--mid);--wash:var(--mid-wash)}.calm{--tone:var(--soft);--wash:var(--code)}
.word{color:var(--tone);font-size:clamp(2.1rem,7vw,3.5rem);line-height:1.05;font-weight:800;
letter-spacing:-.03em}
.why{font-size:clamp(1.05rem,2.4vw,1.28rem);line-height:1.45;margin-top:.7rem;max-width:52rem;
text-wrap:pretty}
.facts{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin-top:1.1rem;color:var(--soft);
font-size:.9rem}
.facts dt,.facts dd{display:inline}.facts dd{color:var(--ink)}
.facts dt::after{content:" "}
.list{padding-left:1.15rem}.list li{margin:.3rem 0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));
gap:1rem;margin-top:1rem}
.pair>*{min-width:0}
@media (min-width:56rem){.lead{grid-template-columns:minmax(0,1fr) minmax(0,1.15fr)}}
.side .verdict{font-size:1.25rem;font-weight:750;letter-spacing:-.015em;color:var(--tone)}
.side p{color:var(--soft);font-size:.94rem;margin-top:.25rem}
.clash{border-color:var(--mid);background:var(--mid-wash)}
.code{position:relative;background:var(--code);border-radius:7px;margin:.5rem 0 0}
.code pre{overflow-x:auto;padding:.8rem .95rem;line-height:1.5;white-space:pre;
font-size:.84rem}
.lead .src td+td{white-space:pre-wrap;overflow-wrap:anywhere}
.code pre.wrap,.lead .code pre{white-space:pre-wrap;overflow-wrap:anywhere;padding-right:4.6rem}
.copy{position:absolute;top:.42rem;right:.42rem;font:600 .78rem var(--sans);color:var(--soft);
background:var(--card);border:1px solid var(--line);border-radius:5px;padding:.22rem .6rem;
cursor:pointer}
.copy:hover{color:var(--ink)}
:focus-visible{outline:2px solid var(--copper);outline-offset:2px}
.cause{margin-top:1rem;border-left:4px solid var(--tone)}
.cause>.message{font-size:1.1rem;font-weight:600;margin:.2rem 0 .6rem}
.cause .finding{margin-top:.8rem}
.finding{margin-top:1rem;scroll-margin-top:1rem}
.finding:target{border-color:var(--copper);box-shadow:0 0 0 3px
color-mix(in srgb,var(--copper) 22%,transparent)}
.head{display:flex;flex-wrap:wrap;gap:.35rem .7rem;align-items:center;font-size:.9rem;
color:var(--soft)}
.head .name{font-family:var(--mono);font-weight:650;color:var(--ink);text-decoration:none}
.tag{background:var(--wash);color:var(--tone);border-radius:4px;padding:.08rem .5rem;
font-weight:650;font-size:.82rem}
.finding>.message{font-size:1.1rem;line-height:1.45;margin:.55rem 0 0;font-weight:550;
text-wrap:pretty}
.bar{display:block;width:100%;height:1.35rem}
.budget{margin-top:1rem;max-width:46rem}
.mark{margin-left:calc(34% + .3rem);color:var(--soft);font-size:.8rem;line-height:1.2}
.budget p{font-size:.94rem}.budget p b{font-size:1.05em;color:var(--tone)}
.rows{display:grid;grid-template-columns:fit-content(17rem) 1fr;gap:.3rem 1.1rem;
font-size:.94rem;margin-top:1rem}
.rows dt{color:var(--soft)}.rows dd{min-width:0}
.plot{margin-top:1.25rem}
.plot svg{display:block;width:100%;max-width:42rem;height:auto}
figcaption{color:var(--soft);font-size:.86rem;margin-top:.35rem}
svg text{font-family:var(--sans);font-size:12px;fill:var(--soft)}
svg .strong{fill:var(--ink);font-weight:650}
.z0{fill:var(--z0)}.z1{fill:var(--z1)}.z2{fill:var(--z2)}.z3{fill:var(--z3)}.z4{fill:var(--z4)}
.z5{fill:var(--z5)}.z6{fill:var(--z6)}.z7{fill:var(--z7)}.z8{fill:var(--z8)}
.ring{fill:none;stroke:var(--ink);stroke-width:1.6}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke:var(--bad);stroke-width:2}.dash{stroke-dasharray:5 5}
.dot{fill:var(--bad)}.hole{fill:var(--card);stroke:var(--bad);stroke-width:2}
.tline{fill:none;stroke:var(--good);stroke-width:2}.tdot{fill:var(--good)}
svg .tlabel{fill:var(--good);font-weight:600}svg .clabel{fill:var(--bad);font-weight:650}
.track{fill:var(--code)}.fill-good{fill:var(--good)}.fill-bad{fill:var(--bad)}
.fill-mid{fill:var(--mid)}.limit{stroke:var(--ink);stroke-width:1.5}
.b0{fill:#8c6f56}.b1{fill:#5d7a8c}.b2{fill:#b8834a}.b3{fill:#6f8f63}.b4{fill:var(--line)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.9rem;color:var(--soft);
margin-top:.5rem}
.key svg,.plot .key svg{display:inline-block;width:.75rem;height:.75rem;margin-right:.4rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.94rem}
th{color:var(--soft);font-weight:550;font-size:.85rem}
th,td{text-align:left;padding:.48rem .9rem .48rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
tr:last-child td{border-bottom:0}
td.num,th.num{text-align:right;white-space:nowrap}
td.state{color:var(--tone);font-weight:650;white-space:nowrap}
td.title{min-width:11rem}
summary{cursor:pointer;color:var(--soft);font-size:.94rem;padding:.35rem 0}
summary:hover{color:var(--ink)}
details pre{max-height:26rem;overflow:auto}
footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--soft);
font-size:.85rem;overflow-wrap:anywhere}
@media (max-width:38rem){main{padding:1.1rem .9rem 3rem}.card{padding:1rem}
.hero{padding:1.1rem 1.1rem 1.2rem}
.copy{position:static;display:block;margin:0 .5rem .5rem auto}.code{padding-bottom:.05rem}
.code pre,.lead .code pre{white-space:pre-wrap;overflow-wrap:anywhere;padding-right:.95rem}
.src td+td{white-space:pre-wrap;overflow-wrap:anywhere}.plot svg text{font-size:17px}
.rows{grid-template-columns:1fr;gap:0}
.rows dd{margin-bottom:.5rem}
.checks tr{display:grid;grid-template-columns:1fr auto;padding:.5rem 0;
border-bottom:1px solid var(--line)}
.checks td{border:0;padding:.05rem 0}.checks .head-row{display:none}
.checks td.title,.checks td.reason{grid-column:1/-1}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--code:#f4f4f4;
--good:#17724a;--bad:#b3261e;--mid:#8a5a00}
body{font-size:10.5pt}main{max-width:none;padding:0}.copy{display:none}
.card{break-inside:avoid;border-radius:0}.code pre{white-space:pre-wrap}
details>*{display:block}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
""".strip()

# Adds a copy button to each command and opens the passed checks for printing.
SCRIPT = """
(function(){
if(navigator.clipboard){document.querySelectorAll('.code').forEach(function(box){
var b=document.createElement('button');b.type='button';b.className='copy';b.textContent='Copy';
b.setAttribute('aria-label','Copy to the clipboard');
b.addEventListener('click',function(){
navigator.clipboard.writeText(box.querySelector('pre').textContent).then(function(){
b.textContent='Copied';setTimeout(function(){b.textContent='Copy'},1500)},
function(){b.textContent='Press Ctrl+C';
getSelection().selectAllChildren(box.querySelector('pre'))})});
box.appendChild(b)})}
addEventListener('beforeprint',function(){
document.querySelectorAll('details').forEach(function(d){d.open=true})});
})();
""".strip()
