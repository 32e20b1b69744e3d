/** While jobs are under way their list is fetched again now and then, and what is finished is said. */
const EVERY_MS = 1500;

export function startJobs() {
  const list = document.getElementById("jobs");
  if (list?.dataset.active) setTimeout(look, EVERY_MS);
}

async function look() {
  const list = document.getElementById("jobs");
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(String(response.status));
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("jobs");
    const focused = document.activeElement?.id;
    const ended = [...list.querySelectorAll("[data-state=running]")]
      .map((item) => fresh.querySelector(`[id="${item.id}"]`))
      .filter((item) => item && item.dataset.state !== "running");
    list.replaceChildren(...fresh.childNodes);
    list.dataset.active = fresh.dataset.active ?? "";
    if (focused) document.getElementById(focused)?.focus();
    if (ended.length) document.getElementById("announce").textContent = ended.map((item) => item.dataset.said).join(" ");
  } catch {
    // The service may be restarting: it is asked again.
  }
  if (list.dataset.active) setTimeout(look, EVERY_MS);
}
