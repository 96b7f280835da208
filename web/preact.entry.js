// What the page uses to draw itself, in one file.
import { h, render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { batch, computed, effect, signal } from "@preact/signals";
import htm from "htm";

const html = htm.bind(h);

export {
  batch, computed, effect, h, html, render, signal, useEffect, useLayoutEffect, useMemo, useRef,
  useState,
};
