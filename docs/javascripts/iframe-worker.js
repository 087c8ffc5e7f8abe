// A browser gives no workers to a page that was opened from a file. The search's worker then runs in a hidden frame, so that the site
// can be searched without a web server. The name is the one by which the generator knows that no script of the web is needed for it.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    #frame = document.createElement("iframe");
    #waiting = [];
    #isLoaded = false;

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.#isLoaded = true;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      script.onerror = (event) => this.onerror?.(event);
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.#isLoaded) setTimeout(() => this.#frame.contentWindow?.onmessage?.(new MessageEvent("message", { data })));
      else this.#waiting.push(data);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
