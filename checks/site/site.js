/* What the theme leaves out for readers who use a keyboard or a screen reader. */
const SCROLLERS = ".md-typeset pre > code, .md-typeset__scrollwrap";

/* A frame that scrolls is reached by key, on a touch screen, too. */
function reach(frame) {
  const scrolls = frame.scrollWidth > frame.clientWidth;
  if (scrolls && !frame.hasAttribute("tabindex")) frame.setAttribute("tabindex", "0");
  if (!scrolls && frame.hasAttribute("tabindex")) frame.removeAttribute("tabindex");
}

/* "Guides: The lab": a section's list is named with the sections around it, as titles repeat. */
function path(label) {
  const titles = [];
  for (let item = label.closest(".md-nav__item"); item; item = item.parentElement.closest(".md-nav__item")) {
    titles.unshift(item.querySelector(".md-ellipsis").textContent.trim());
  }
  return titles.join(": ");
}

function mend() {
  document.querySelectorAll(SCROLLERS).forEach(reach);
  document.querySelectorAll("nav.md-code__nav:not([role])").forEach((buttons) => buttons.setAttribute("role", "none"));
}

document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
document.querySelectorAll("label[id^=__nav_]").forEach((label) => label.setAttribute("aria-label", path(label)));
mend();
new MutationObserver(mend).observe(document.querySelector(".md-content"),
  { childList: true, subtree: true, attributes: true, attributeFilter: ["tabindex"] });
window.addEventListener("resize", mend);
