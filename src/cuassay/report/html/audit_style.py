"""The style sheet and the scripts of the audit page. The page reads without the scripts."""

from __future__ import annotations

from cuassay.report.html.style import CSS as BASE

CSS = (
    BASE
    + """
main{max-width:82rem}
.lede{font-size:clamp(1.5rem,3.6vw,2.3rem);line-height:1.18;font-weight:780;letter-spacing:-.022em;
max-width:50rem;text-wrap:balance}
.lede em{font-style:normal;color:var(--tone)}
.spread{display:block;width:100%;height:1.6rem;margin-top:1.3rem}
.t-good{fill:var(--good)}.t-cond{fill:var(--good);opacity:.55}.t-bad{fill:var(--bad)}
.t-mid{fill:var(--mid)}.t-calm{fill:var(--soft);opacity:.5}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.3rem;margin-top:.6rem;font-size:.92rem}
.legend a{color:inherit;text-decoration:none}.legend a:hover{text-decoration:underline}
.legend svg{width:.75rem;height:.75rem;margin-right:.45rem}
.legend b{font-weight:680}
.two{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));
align-items:start}
.two>*{min-width:0}.two h2{margin-top:2.2rem}
.share{display:block;width:100%;height:.6rem}
td.gauge{width:6rem;min-width:3rem;vertical-align:middle}
.groups th.num:last-child{min-width:6.5rem}
.heat{width:auto;min-width:40%}
.groups th{vertical-align:bottom}.groups th.num{white-space:normal}
.heat td{text-align:center;padding:.15rem;border:0}
.heat th{padding:.3rem .5rem .3rem 0;border:0}.heat thead th{text-align:center}
.heat a{display:block;border-radius:5px;padding:.42rem .3rem;min-width:2.6rem;
text-decoration:none;font-weight:600}
.h1{background:var(--z1);color:var(--ink)}.h2{background:var(--z2);color:var(--ink)}
.h3{background:var(--z3);color:#1d1e20}.h4{background:var(--z4);color:#1d1e20}
.h5{background:var(--z5);color:#fff}.h6{background:var(--z6);color:#fff}
.filters{position:sticky;top:0;z-index:2;background:var(--page);display:none;flex-wrap:wrap;
gap:.55rem;align-items:center;padding:.7rem 0;border-bottom:1px solid var(--line)}
.js .filters{display:flex}
.filters label{font-size:.78rem;color:var(--soft);display:grid;gap:.12rem}
.filters input,.filters select,.filters button{font:inherit;font-size:.92rem;color:var(--ink);
background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.34rem .55rem;
max-width:14rem}
.filters input{min-width:13rem}.filters button{cursor:pointer;align-self:end}
.filters output{margin-left:auto;color:var(--soft);font-size:.92rem;align-self:end}
.items th{white-space:nowrap;position:relative}
.items th button{all:unset;cursor:pointer;color:inherit}
.items th button:hover{color:var(--ink)}
.items th button:focus-visible{outline:2px solid var(--copper);outline-offset:2px}
.items th[aria-sort=ascending] button::after{content:" \\2191"}
.items th[aria-sort=descending] button::after{content:" \\2193"}
.items td{padding:.42rem .9rem .42rem 0;border-bottom:0}
.items tbody{border-top:1px solid var(--line);scroll-margin-top:5.5rem}
.items th:first-child,.items td:first-child{padding-left:.6rem}
.items tbody:target{outline:2px solid var(--copper);outline-offset:-1px}
.js .items tr.row{cursor:pointer}.js .items tr.row:hover{background:var(--code)}
.js .items tr.more{display:none}.js .items tbody.open tr.more{display:table-row}
.items tbody.open{background:var(--card)}
.items .what{min-width:12rem;overflow-wrap:anywhere}
.items .what a{color:inherit;text-decoration:none;font-weight:620}
.items .what a:hover{text-decoration:underline}
.items .sub{color:var(--soft);font-size:.86rem}
.items .telling{max-width:26rem;overflow-wrap:anywhere}
.pill{display:inline-block;background:var(--wash);color:var(--tone);border-radius:4px;
padding:.02rem .45rem;font-weight:650;font-size:.8rem;white-space:nowrap}
.chip{display:inline-block;border:1px solid var(--line);border-radius:4px;padding:0 .35rem;
font-size:.8rem;margin:0 .2rem .15rem 0;white-space:nowrap}
.body{padding:.2rem 0 1.1rem;max-width:60rem}
.body ul{margin-top:.4rem}.body li{margin:.45rem 0}
.none{display:none;padding:1.4rem 0;color:var(--soft)}.none.shown{display:block}
.clash-mark{color:var(--mid);font-weight:650}
.up{color:var(--good)}.down{color:var(--bad)}
@media (max-width:38rem){.groups .gauge{display:none}.groups th,.groups td{padding-right:.5rem}
.groups{font-size:.86rem}.groups td{overflow-wrap:anywhere}
.groups th.num:last-child{min-width:4.5rem}}
@media (max-width:52rem){.items thead{display:none}
.items tr.row{display:grid;grid-template-columns:auto 1fr;gap:.1rem .7rem;padding:.55rem 0}
.filters{position:static}.items td{padding:0 .4rem}.items td.what,
.items td.telling{grid-column:1/-1}
.items td.opt{display:none}.js .items tbody.open tr.more{display:block}
.filters input,.filters select{max-width:none;min-width:0}.filters label{flex:1 1 40%}}
@media print{.filters{display:none!important}.js .items tr.more{display:none!important}
.items tbody{break-inside:avoid}.two{grid-template-columns:1fr}}
"""
).strip()

HEAD_SCRIPT = "document.documentElement.className='js'"

# Sorting, filtering and deep links. The address holds the filters (#family=norm&class=N1) or
# one candidate (#c-0123); text only ever reaches the page through textContent.
SCRIPT = """
(function(){
var table=document.querySelector('.items');if(!table)return;
var items=Array.prototype.slice.call(table.tBodies);
var form=document.querySelector('.filters'),out=form.querySelector('output');
var none=document.querySelector('.none');
var fields=['q','verdict','family','class','author','check'];
function value(n){return form.elements[n].value}
function has(list,one){return (' '+list+' ').indexOf(' '+one+' ')>=0}
function apply(){
var q=value('q').trim().toLowerCase(),v=value('verdict'),f=value('family'),k=value('class'),
a=value('author'),c=value('check'),shown=0;
items.forEach(function(t){var d=t.dataset;
var on=(!q||t.textContent.toLowerCase().indexOf(q)>=0)&&
(!v||(v==='clash'?d.clash==='1':d.verdict===v))&&
(!f||d.family===f)&&(!a||d.author===a)&&(!k||has(d.classes,k))&&(!c||has(d.checks,c));
t.hidden=!on;if(on)shown++});
out.textContent=shown===items.length?items.length+' kernels':shown+' of '+items.length+' kernels';
none.className=shown?'none':'none shown'}
function keep(){
var parts=[];fields.forEach(function(n){var x=value(n).trim();
if(x)parts.push(n+'='+encodeURIComponent(x))});
history.replaceState(null,'','#'+(parts.join('&')||'kernels'))}
function decode(x){try{return decodeURIComponent(x)}catch(e){return x}}
function read(){
var hash=location.hash.slice(1);
if(hash.indexOf('c-')===0){fields.forEach(function(n){form.elements[n].value=''});apply();
var t=document.getElementById(hash);
if(t){t.classList.add('open');copyable(t);t.scrollIntoView({block:'start'})}return}
if(hash.indexOf('=')<0)return;
fields.forEach(function(n){form.elements[n].value=''});
hash.split('&').forEach(function(p){var i=p.indexOf('='),n=p.slice(0,i);
if(fields.indexOf(n)>=0)form.elements[n].value=decode(p.slice(i+1))});
apply();form.scrollIntoView({block:'start'})}
function copyable(t){
if(!navigator.clipboard)return;
t.querySelectorAll('.code').forEach(function(box){if(box.querySelector('.copy'))return;
var b=document.createElement('button');b.type='button';b.className='copy';b.textContent='Copy';
b.setAttribute('aria-label','Copy to the clipboard');
b.addEventListener('click',function(e){e.stopPropagation();
navigator.clipboard.writeText(box.querySelector('pre').textContent).then(function(){
b.textContent='Copied';setTimeout(function(){b.textContent='Copy'},1500)},
function(){b.textContent='Press Ctrl+C';
getSelection().selectAllChildren(box.querySelector('pre'))})});
box.appendChild(b)})}
function key(t,n){var x=t.rows[0].cells[n],s=x.getAttribute('data-n');
return s===null?x.textContent.trim().toLowerCase():parseFloat(s)}
Array.prototype.forEach.call(table.tHead.rows[0].cells,function(th,n){
var b=document.createElement('button');b.type='button';b.textContent=th.textContent;
th.textContent='';th.appendChild(b);
b.addEventListener('click',function(){
var down=th.getAttribute('aria-sort')==='ascending'||
(!th.hasAttribute('aria-sort')&&th.classList.contains('num'));
Array.prototype.forEach.call(table.tHead.rows[0].cells,function(o){
o.removeAttribute('aria-sort')});
th.setAttribute('aria-sort',down?'descending':'ascending');
var keys=new Map(items.map(function(t){return [t,key(t,n)]}));
items.sort(function(x,y){var p=keys.get(x),q=keys.get(y),r;
if(p!==p||q!==q)return (p!==p)-(q!==q);
r=p<q?-1:p>q?1:0;return down?-r:r});
var all=document.createDocumentFragment();
items.forEach(function(t){all.appendChild(t)});table.appendChild(all)})});
table.addEventListener('click',function(e){
var row=e.target.closest('tr.row');if(!row||e.target.closest('a'))return;
row.parentNode.classList.toggle('open');copyable(row.parentNode)});
form.addEventListener('input',function(){apply();keep()});
form.addEventListener('submit',function(e){e.preventDefault()});
form.querySelector('button').addEventListener('click',function(){
fields.forEach(function(n){form.elements[n].value=''});apply();keep()});
addEventListener('hashchange',read);apply();read();
})();
""".strip()
