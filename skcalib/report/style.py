"""The style sheet of a report: light, dark, narrow and printed."""

_LIGHT = """--ink: #1a1a1a; --soft: #565656; --line: #d4d4d4; --paper: #ffffff; --card: #f5f6f7;
  --bad: #d55e00; --bad-ink: #a33f00; --good: #00795a; --blue: #0072b2; --grey: #9e9e9e;
  --rest: #a9c3da; --hidden: #f0c000;"""
_DARK = """--ink: #e9e9e9; --soft: #b5b5b5; --line: #4a4a4a; --paper: #16181b; --card: #22262b;
  --bad: #ef7d30; --bad-ink: #ff9d5c; --good: #3fc29a; --blue: #56b4e9; --grey: #8a8a8a;
  --rest: #47637d; --hidden: #f0d452;"""


def _stacked(table):
    """Rows below each other, each cell with the name of its column."""
    table = f".skcalib {table}"
    return f"""{table}, {table} caption, {table} tbody, {table} tr, {table} th, {table} td {{
    display: block; text-align: left; padding-left: 0; border: 0; }}
  {table} thead {{ position: absolute; left: -100vw; }}
  {table} tr {{ border-bottom: 1px solid var(--line); padding: .4rem 0; }}
  {table} th, {table} td {{ padding: .1rem 0; }}
  {table} tbody th {{ font-weight: 600; }}
  {table} td::before {{ content: attr(data-head) ": "; color: var(--soft); font-weight: 400; }}"""


STYLE = f"""
.skcalib {{ {_LIGHT} color-scheme: light dark;
  color: var(--ink); background: var(--paper); max-width: 66rem; margin: 0 auto; padding: 1.2rem;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; box-sizing: border-box; text-align: left; }}
@media (prefers-color-scheme: dark) {{ .skcalib {{ {_DARK} }} }}
.skcalib * {{ box-sizing: border-box; }}
.skcalib h1 {{ font-size: 1.15rem; margin: 0; font-weight: 600; line-height: 1.25;
  color: inherit; }}
.skcalib h2 {{ font-size: 1.05rem; margin: 0; display: inline; color: inherit; }}
.skcalib details {{ border-top: 1px solid var(--line); padding: .55rem 0; }}
.skcalib details:last-of-type {{ border-bottom: 1px solid var(--line); }}
.skcalib summary {{ cursor: pointer; padding: .2rem 0; }}
.skcalib summary:focus-visible, .skcalib pre:focus-visible {{ outline: 2px solid var(--blue); }}
.skcalib .tiles {{ display: grid; gap: .8rem; margin: 1.2rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 14rem), 1fr)); }}
.skcalib .tile {{ background: var(--card); padding: .7rem 1rem; }}
.skcalib .tile p {{ margin: 0; }}
.skcalib .tile strong {{ font-size: 1.6rem; font-weight: 650; line-height: 1.3;
  white-space: nowrap; }}
.skcalib pre.code {{ background: var(--card); color: inherit; padding: .7rem 1rem; margin: 1rem 0;
  overflow-x: auto; font: .9rem/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  border: 0; white-space: pre-wrap; overflow-wrap: anywhere; }}
.skcalib pre.code code {{ font: inherit; background: none; color: inherit; padding: 0; }}
.skcalib h3 {{ font-size: 1rem; margin: 1.2rem 0 .3rem; color: inherit; }}
.skcalib p {{ margin: .5rem 0; max-width: 46rem; }}
.skcalib ul {{ margin: .5rem 0; padding-left: 1.2rem; max-width: 46rem; }}
.skcalib .soft, .skcalib figcaption, .skcalib caption, .skcalib .note {{
  color: var(--soft); font-size: .875rem; font-weight: 400; }}
.skcalib .verdict {{ background: var(--card); border-left: .4rem solid var(--good);
  padding: .8rem 1.1rem; margin: 1.2rem 0; }}
.skcalib .verdict.bad {{ border-left-color: var(--bad); }}
.skcalib .verdict.weak {{ border-left-color: var(--soft); }}
.skcalib .verdict .headline {{ font-size: 1.5rem; font-weight: 700; margin: 0 0 .4rem;
  line-height: 1.25; max-width: none; }}
.skcalib table {{ border-collapse: collapse; width: 100%; margin: .8rem 0; font-size: .9375rem;
  font-variant-numeric: tabular-nums; color: inherit; background: none; }}
.skcalib caption {{ text-align: left; padding: 0 0 .3rem; caption-side: top; }}
.skcalib tr {{ background: none; }}
.skcalib th, .skcalib td {{ text-align: right; vertical-align: top; padding: .35rem 0 .35rem .9rem;
  border: 0; border-bottom: 1px solid var(--line); font-weight: 400; }}
.skcalib thead th {{ font-weight: 600; vertical-align: bottom; }}
.skcalib th:first-child {{ text-align: left; padding-left: 0; }}
.skcalib .whole {{ white-space: nowrap; }}
.skcalib .note {{ display: block; max-width: 34rem; }}
.skcalib .marked {{ font-weight: 700; }}
.skcalib td.alarm {{ color: var(--bad-ink); }}
.skcalib .bar {{ position: relative; display: flex; height: 1.5rem; margin: .2rem 0 .9rem;
  border: 1px solid var(--soft); background: var(--paper); overflow: hidden; }}
.skcalib .bar span {{ display: block; height: 100%; }}
.skcalib .calibration {{ background: var(--bad); }}
.skcalib .grouping {{ background: repeating-linear-gradient(45deg, var(--hidden) 0 4px,
  var(--paper) 4px 6px); }}
.skcalib .rest {{ background: var(--rest); }}
.skcalib .bar .whisker {{ position: absolute; height: 2px; background: var(--ink); }}
.skcalib .bar .whisker.calibration {{ top: 33%; }}
.skcalib .bar .whisker.grouping {{ top: 66%; }}
.skcalib .key {{ list-style: none; padding: 0; }}
.skcalib .key span {{ display: inline-block; width: .9rem; height: .9rem; margin-right: .5rem;
  border: 1px solid var(--soft); vertical-align: -.1rem; }}
.skcalib figure {{ margin: .8rem 0; }}
.skcalib .title {{ margin: 0; text-align: center; font-size: .9rem; font-weight: 600; }}
.skcalib .panels {{ align-items: end; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }}
.skcalib .panels.single {{ grid-template-columns: minmax(0, 32rem); }}
.skcalib .panels.pair {{ max-width: 56rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); }}
.skcalib .verdict ul {{ max-width: none; }}
.skcalib figure svg {{ width: 100%; height: auto; display: block; }}
.skcalib svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
.skcalib svg text {{ fill: var(--ink); font-family: "DejaVu Sans", Verdana, sans-serif; }}
@media (max-width: 40rem) {{
  .skcalib {{ padding: .9rem; }}
  {_stacked("table:not(.compact)")}
  .skcalib .compact {{ font-size: .75rem; }}
  .skcalib .compact th, .skcalib .compact td {{ padding: .3rem 0 .3rem .4rem; }}
  .skcalib .compact th:first-child {{ padding-left: 0; }}
}}
{_stacked("table.many")}
@media print {{
  .skcalib {{ {_LIGHT} max-width: none; padding: 0; font-size: 9.5pt;
    print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
  .skcalib summary, .skcalib h3, .skcalib caption {{ break-after: avoid; }}
  .skcalib summary {{ list-style: none; margin-top: .6rem; }}
  .skcalib summary::-webkit-details-marker {{ display: none; }}
  .skcalib details::details-content {{ content-visibility: visible; display: block;
    block-size: auto; }}
  .skcalib table, .skcalib .soft, .skcalib figcaption, .skcalib caption, .skcalib .note {{
    font-size: 8.5pt; }}
  .skcalib th, .skcalib td {{ padding: .15rem 0 .15rem .6rem; }}
  .skcalib figure, .skcalib .verdict, .skcalib tr, .skcalib .loss, .skcalib li, .skcalib .tiles {{
    break-inside: avoid; }}
  .skcalib .panels.single {{ grid-template-columns: minmax(0, 9cm); }}
  .skcalib .panels.pair {{ grid-template-columns: 1fr 1fr; }}
  .skcalib .panels {{ grid-template-columns: repeat(auto-fill, minmax(6cm, 1fr)); }}
}}
"""

PAGE_STYLE = """
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #16181b; } }
@media print { body { background: #ffffff; } @page { margin: 1.6cm; } }
"""
