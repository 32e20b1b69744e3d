/** The two buttons at each answer: what is pressed is stored without loading the page again. */
export function startJudging() {
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-judge]");
    const button = event.submitter;
    if (!form || !button) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form));
    body.set("verdict", button.value);
    let verdict;
    try {
      const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(String(response.status));
      ({ verdict } = await response.json());
    } catch {
      tell(form, "Not stored. Try again.");
      return;
    }
    for (const each of form.querySelectorAll("button")) {
      each.setAttribute("aria-pressed", String(each.value === verdict));
    }
    tell(form, verdict ? "Stored. Thank you." : "Taken back.");
  });
}

function tell(form, text) {
  form.querySelector(".judge__told").textContent = text;
  document.getElementById("announce").textContent = text;
}
