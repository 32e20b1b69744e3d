const TASKS = 4;

/** The keyboard: `/` search, `j` and `k` move, `o` opens, `n` and `p` turn pages, `1` to `4` change the task, `?` helps. */
export function startKeys() {
  const help = document.getElementById("help");
  document.getElementById("help-button")?.addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = actions(help)[event.key];
    if (action && action() !== false) event.preventDefault();
  });
}

function actions(help) {
  const found = {
    "/": focusSearch,
    j: () => move(1),
    k: () => move(-1),
    o: toggleCurrent,
    n: () => turnTo("next"),
    p: () => turnTo("prev"),
    "?": () => help.showModal(),
  };
  for (let number = 1; number <= TASKS; number += 1) found[number] = () => openTab(number);
  return found;
}

function isTyping(target) {
  return target.matches("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox], [type=file])");
}

function focusSearch() {
  const field = [...document.querySelectorAll("[data-search]")].find((one) => one.offsetParent !== null);
  if (!field) return false;
  field.focus();
  field.select?.();
  return true;
}

function items() {
  return [...document.querySelectorAll("[data-item]")];
}

function current() {
  return document.activeElement?.closest("[data-item]") ?? null;
}

function move(step) {
  const all = items();
  if (!all.length) return false;
  const at = all.indexOf(current());
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest" });
  return true;
}

function toggleCurrent() {
  const item = current() ?? items()[0];
  const opened = item?.querySelector("[data-open]");
  if (!opened) return false;
  if (opened instanceof HTMLDetailsElement) {
    opened.open = !opened.open;
    item.focus();
  } else {
    opened.click();
  }
  return true;
}

function turnTo(page) {
  const step = document.querySelector(`[data-turn=${page}]`);
  if (!step) return false;
  step.click();
  return true;
}

function openTab(number) {
  const tab = document.querySelectorAll(".tabs__tab")[number - 1];
  if (!tab) return false;
  tab.click();
  return true;
}
