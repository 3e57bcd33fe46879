/* The search of the site runs in a worker, and browsers refuse workers to pages opened from the disk. There, and only
   there, a hidden frame does a worker's work: it loads the same script, and messages go to it and back. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><html><body></body></html>");
      inside.document.close();
      inside.postMessage = (data) => this.answer(data);
      inside.importScripts = async (...scripts) => { for (const each of scripts) await this.load(each); };
      this.ready = this.load(script);
    }

    load(script) {
      return new Promise((done, failed) => {
        const element = this.frame.contentDocument.createElement("script");
        element.src = script;
        element.onload = done;
        element.onerror = () => failed(new Error(`cannot load ${script}`));
        this.frame.contentDocument.body.appendChild(element);
      });
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      if (this.onmessage) this.onmessage(event);
      this.dispatchEvent(event);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() { this.frame.remove(); }
  };
}
