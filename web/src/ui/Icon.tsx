// Line icons on a grid of 16, in the colour of the surrounding text.

const PATHS = {
  add: "M8 3v10M3 8h10",
  back: "M10 3 5 8l5 5",
  check: "m3 8.5 3.5 3.5L13 4.5",
  close: "m4 4 8 8m0-8-8 8",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  down: "m4 6 4 4 4-4",
  forward: "m6 3 5 5-5 5",
  gear:
    "M8 5.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4M8 2v1.6M8 12.4V14M2 8h1.6M12.4 8H14" +
    "M3.8 3.8l1.1 1.1M11.1 11.1l1.1 1.1M3.8 12.2l1.1-1.1M11.1 4.9l1.1-1.1",
  list: "M3 4h10M3 8h10M3 12h10",
  more: "M3 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0m4.5 0a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0M12 8a.5.5 0 1 0 1 0 .5.5 0 1 0-1 0",
  needs: "M8 2.5 13.5 8 8 13.5 2.5 8z",
  panel: "M2.5 3h11v10h-11zM10 3v10",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8m3 7 3.5 3.5",
  talk: "M3 3.5h10v7H7.5L4.5 13v-2.5H3z",
  warn: "M8 2.5 14 13H2zM8 6.5v3M8 11.4v.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
