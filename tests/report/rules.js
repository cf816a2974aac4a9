// What a reader of a page needs, as axe-core and WCAG 2.1 AA ask for it: a list of [rule, place].
const root = document.querySelector(".skcalib, .bd-article");
const all = query => [...root.querySelectorAll(query)];
const found = [];
const say = (rule, e, more = "") => found.push([rule, (e.outerHTML || e.textContent).slice(0, 90), more]);
const label = e => (e.getAttribute("aria-label") || e.getAttribute("alt") || "").trim();
const hidden = e => e.closest("[aria-hidden=true]") || !e.getClientRects().length;

// Names, language, order
if (!document.documentElement.lang) say("language of the page", document.documentElement);
all("svg, img, [role=img], [role=region]").filter(e => !e.parentElement.closest("svg") && !hidden(e) && !label(e))
  .forEach(e => say("no name", e));
all("a[href], button, summary").filter(e => !hidden(e) && !label(e) && !e.textContent.trim() && !e.title)
  .forEach(e => say("no label", e));
all("h1, h2, h3, h4, h5").reduce((last, e) => {
  if (+e.tagName[1] > last + 1) say("heading out of order", e);
  return +e.tagName[1];
}, 0);
all(".skcalib table").filter(e => !e.caption).forEach(e => say("table without caption", e));
all("thead th").filter(e => !e.scope && !e.classList.contains("head")).forEach(e => say("th without scope", e));
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
ids.filter((id, k) => ids.indexOf(id) < k).forEach(id => found.push(["id twice", id]));
all("*").filter(e => /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0)
  .forEach(e => say("scrolls without focus", e));

// Contrast of text: 4.5, and 3 for large letters
const parse = c => (c.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
const light = c => parse(c).slice(0, 3).map(v => v / 255)
  .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
const behind = e => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (parse(c)[3] !== 0) return c;
  }
  return "rgb(255, 255, 255)";
};
// Boxes of all texts: nothing is cut, lies on something else, or has letters below 6 points
const boxes = [];
const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode, e = text.parentElement;
  if (!text.textContent.trim() || e.closest("style, script, svg title, math, .headerlink")) continue;
  const style = getComputedStyle(e), drawing = e.closest("svg");
  if (style.visibility === "hidden") continue;
  const range = document.createRange();
  range.selectNodeContents(text);
  const own = [...range.getClientRects()].filter(r => r.width > 0 && r.right > 0);
  if (!own.length) continue;
  const ink = light(drawing ? style.fill : style.color), paper = light(behind(e));
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) say("contrast", text, ratio);
  const scale = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
  if (parseFloat(style.fontSize) * scale < 8) say("small letters", text, parseFloat(style.fontSize) * scale);
  let frame = e;
  while (frame && getComputedStyle(frame).overflowX === "visible") frame = frame.parentElement;
  const scrolls = frame && /auto|scroll/.test(getComputedStyle(frame).overflowX);
  const right = frame && frame !== document.body ? frame.getBoundingClientRect().right : innerWidth;
  if (!scrolls && own.some(r => r.right > right + 1)) say("cut", text, right);
  own.forEach(r => boxes.push([r, text]));
}
boxes.forEach(([a, one], k) => boxes.slice(k + 1).forEach(([b, other]) => {
  const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (one !== other && wide > 2 && high > 3) say("overlap", one, other.textContent.slice(0, 60));
}));
return found;
