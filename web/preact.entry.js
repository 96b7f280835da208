// What the page uses to draw itself, in one file.
import { h, render, Fragment } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { batch, computed, effect, signal, useComputed, useSignal } from "@preact/signals";
import htm from "htm";

const html = htm.bind(h);

export {
  Fragment, batch, computed, effect, h, html, render, signal, useComputed, useEffect,
  useLayoutEffect, useMemo, useRef, useSignal, useState,
};
