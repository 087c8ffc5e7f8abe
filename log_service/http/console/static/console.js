// The few things that pages cannot do alone: copy a command line, follow a topic, and confirm.
"use strict";

class CopyLine extends HTMLElement {
  connectedCallback() {
    const code = this.querySelector("code");
    if (!code || !navigator.clipboard || this.querySelector("button")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${code.textContent}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    this.append(button);
  }
}

const MAX_ROWS = 200;

class LiveRecords extends HTMLElement {
  connectedCallback() {
    this.button = this.querySelector("button");
    this.state = this.querySelector("[data-state]");
    this.rows = this.querySelector("tbody");
    this.button.addEventListener("click", () => (this.source ? this.stop("Paused") : this.start()));
    this.start();
  }

  disconnectedCallback() { this.stop("Ended"); }

  start() {
    this.source = new EventSource(this.getAttribute("src"));
    this.button.textContent = "Pause";
    this.say("Connecting");
    this.source.addEventListener("records", (event) => this.add(event.data));
    this.source.addEventListener("state", (event) => this.say(event.data));
    this.source.addEventListener("end", (event) => this.stop(event.data));
    this.source.onerror = () => this.say("The connection broke off; trying again");
  }

  stop(text) {
    if (this.source) this.source.close();
    this.source = null;
    this.button.textContent = "Go on";
    this.say(text);
  }

  say(text) { if (this.state.textContent !== text) this.state.textContent = text; }

  add(markup) {
    const holder = document.createElement("template");
    holder.innerHTML = markup; // escaped by the server, and the page's policy runs no script in it
    this.rows.prepend(holder.content);
    while (this.rows.children.length > MAX_ROWS) this.rows.lastElementChild.remove();
  }
}

customElements.define("copy-line", CopyLine);
customElements.define("live-records", LiveRecords);
