// Which pages a search shows first: those that explain, then those that list, last what is for contributors.
const FIRST = /^(index|why|tutorial|workbench|browser|lake|streams|records|rules|policy|cookbook)$|^(concepts|howto|examples)\//;
const LAST = /^(conformance|contributing|protocol\/matrix$|decisions\/)/;

var Scorer = {
  score: ([page, , , , score]) => score + (FIRST.test(page) ? 6 : LAST.test(page) ? -6 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
