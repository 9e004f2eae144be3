// What keeps people out who see little, or use a keyboard or a screen reader: a sentence for each thing that is found on the page
// as it is shown. The body of a function.
const found = [];
const nameOf = (one) => (one.getAttribute('aria-label') ?? one.textContent ?? '').trim() || one.title || '';
const say = (one, what) => found.push(`${one.tagName.toLowerCase()}.${one.className.baseVal ?? one.className} "${nameOf(one).slice(0, 40)}": ${what}`);
const isShown = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getClientRects().length > 0;
const all = (css) => [...document.querySelectorAll(css)].filter(isShown);

if (!document.documentElement.lang) found.push('the page has no language');
if (!document.title) found.push('the page has no title');
if (document.querySelectorAll('main').length !== 1) found.push('there is not one main part');
if (all('h1').length !== 1) found.push(`there are ${all('h1').length} first headings`);
let level = 0;
for (const one of all('h1, h2, h3, h4')) {
  if (Number(one.tagName[1]) > level + 1) say(one, 'a level of headings is left out');
  level = Number(one.tagName[1]);
}
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
if (new Set(ids).size !== ids.length) found.push('an id is there twice');
for (const one of all('a[href], button, input, select, textarea, [tabindex], [role=img], img, th')) {
  if (one.tabIndex > 0) say(one, 'it changes the order of the keyboard');
  if (one.tagName !== 'MAIN' && !nameOf(one) && !one.labels?.length) say(one, 'it has no name');
}
for (const one of all('*')) {
  const style = getComputedStyle(one);
  const scrolls = (one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(style.overflowX)) ||
    (one.scrollHeight > one.clientHeight + 1 && /auto|scroll/.test(style.overflowY));
  if (scrolls && one !== document.documentElement && one.tabIndex < 0 && !one.querySelector('a[href], button, input')) say(one, 'no key scrolls it');
}

// Contrast of texts (WCAG 2.1, 1.4.3).
const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((one) => (one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
for (const one of all('body *')) {
  const hasText = [...one.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
  if (!hasText || one.closest('svg') || one.tagName === 'OPTION') continue;
  const style = getComputedStyle(one);
  const [a, b] = [light(channels(style.color)), light(behind(one))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
  if (contrast < (isLarge ? 3 : 4.5)) say(one, `its contrast is ${contrast.toFixed(2)}`);
}
const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (over > 0) found.push(`the page is ${over} pixels wider than the window`);
return found.join('\n');
