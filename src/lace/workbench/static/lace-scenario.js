// <lace-scenario name="notes-room" scene="1" step="12">: a story of an exported workbench, in any
// page. The workbench lies beside this file, or where the attribute page says. What stands between
// the tags is shown where no script runs. This is no module: pages of other servers may use it.
// @ts-check
{
  const script = /** @type {HTMLScriptElement|null} */ (document.currentScript);
  const HERE = script?.src ?? document.baseURI;
  const HEIGHT = "36rem";
  const STYLE = new CSSStyleSheet();
  STYLE.replaceSync(`
    :host { display: block; height: ${HEIGHT}; }
    :host([hidden]) { display: none; }
    iframe { width: 100%; height: 100%; border: 1px solid #8886; border-radius: 10px; }
  `);

  class LaceScenario extends HTMLElement {
    static observedAttributes = ["name", "scene", "step", "tab", "link", "page", "label"];

    #frame = document.createElement("iframe");

    constructor() {
      super();
      const root = this.attachShadow({ mode: "open" });
      root.adoptedStyleSheets = [STYLE];
      this.#frame.loading = "lazy";
      this.#frame.referrerPolicy = "no-referrer";
      this.#frame.allow = "clipboard-write; fullscreen";
      root.append(this.#frame);
    }

    connectedCallback() {
      this.#show();
    }

    attributeChangedCallback() {
      if (this.isConnected) this.#show();
    }

    #show() {
      const name = this.getAttribute("name");
      this.#frame.title = this.getAttribute("label") ?? `Lace workbench${name ? `: ${name}` : ""}`;
      const address = this.#address();
      if (address !== this.#frame.src) this.#frame.src = address;
    }

    /** The page with what it is to show; a link is taken for what it carries. */
    #address() {
      const page = new URL(this.getAttribute("page") ?? "index.html", this.#base());
      const wanted = new URLSearchParams((this.getAttribute("link") ?? "").split("#")[1] ?? "");
      const name = this.getAttribute("name");
      if (name !== null) wanted.set("s", name);
      const scene = Number(this.getAttribute("scene"));
      if (scene >= 1) wanted.set("scene", String(scene - 1)); // counted from 1, as on the page
      for (const part of ["step", "tab"]) {
        const value = this.getAttribute(part);
        if (value !== null) wanted.set(part, value);
      }
      wanted.set("embed", "");
      // Any other address could run something in this page.
      if (!["http:", "https:", "file:"].includes(page.protocol)) return "about:blank";
      page.hash = String(wanted);
      return page.href;
    }

    /** The attribute page goes by the document that it stands in, what lies here by this file. */
    #base() {
      return this.hasAttribute("page") ? document.baseURI : HERE;
    }
  }

  customElements.define("lace-scenario", LaceScenario);
}
