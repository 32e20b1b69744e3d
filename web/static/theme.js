// Runs before the first paint: the chosen theme must not flash, and what needs scripts is shown only with them.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("has-js");
  let chosen = null;
  try {
    chosen = localStorage.getItem("kbengine-theme");
  } catch {
    // Storage is switched off: the theme follows the system.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
