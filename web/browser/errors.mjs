/** What is wrong: with a stable code, and what to do about it. */
export class LaceError extends Error {
  constructor({ code, detail, hint }) {
    super(detail);
    this.name = "LaceError";
    this.code = code ?? null;
    this.hint = hint ?? "";
  }

  /** The same as plain values, for a message between a page and its worker. */
  static told(error) {
    if (error instanceof LaceError) {
      return { code: error.code, detail: error.message, hint: error.hint };
    }
    const detail = `${error?.name ?? "Error"}: ${error?.message ?? error}`;
    return { code: null, detail, hint: "This is a fault of Lace. Report it with what was called." };
  }
}
