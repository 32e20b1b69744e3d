import { startKeys } from "./keys.js";
import { startCopying } from "./copying.js";
import { startJobs } from "./jobs.js";
import { startJudging } from "./judging.js";
import { startMentions } from "./mentions.js";
import { startTurns } from "./turns.js";

startThemeButton();
startShortAddresses();
startKeys();
startCopying();
startJudging();
startJobs();
startMentions();
startTurns();

/** The button goes through: as the system has it, light, dark. */
function startThemeButton() {
  const root = document.documentElement;
  const button = document.getElementById("theme-button");
  const names = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
  const shown = () => (root.dataset.theme in names ? root.dataset.theme : "system");
  const name = () => {
    button.setAttribute("aria-label", names[shown()]);
    button.title = names[shown()];
  };
  button.addEventListener("click", () => {
    const next = { system: "light", light: "dark", dark: "system" }[shown()];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("kbengine-theme");
      else localStorage.setItem("kbengine-theme", next);
    } catch {
      // Not remembered, but used on this page.
    }
    name();
    announce(names[next]);
  });
  name();
}

/** Options that are as they were before anyone touched them do not lengthen the address. */
function startShortAddresses() {
  const form = document.getElementById("ask");
  if (!form) return;
  const defaults = JSON.parse(form.dataset.defaults);
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData.entries()]) {
      if (value === "" || defaults[name] === value) event.formData.delete(name);
    }
  });
}

/** Says something to screen readers. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}
