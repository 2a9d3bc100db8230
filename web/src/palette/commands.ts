// The commands of the palette, filtered by the typed text.

interface Named {
  readonly id: string;
  readonly label: string;
  readonly detail: string;
}

/** Leads to more to choose from. */
export interface PaletteGroup extends Named {
  readonly inside: readonly PaletteItem[];
}

export type PaletteItem = PaletteGroup | (Named & { readonly act: () => void });

const MAX_SHOWN = 60;

/** Keeps items that contain every word. Those whose label begins with the text come first, then those that contain it. */
export function filterCommands(items: readonly PaletteItem[], text: string): readonly PaletteItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items.slice(0, MAX_SHOWN);
  const whole = words.join(" ");
  const rank = (item: PaletteItem) => {
    const label = item.label.toLowerCase();
    return label.startsWith(whole) ? 0 : label.includes(whole) ? 1 : 2;
  };
  return items
    .filter((item) => words.every((word) => `${item.label} ${item.detail}`.toLowerCase().includes(word)))
    .map((item, at) => ({ item, at }))
    .toSorted((a, b) => rank(a.item) - rank(b.item) || a.at - b.at)
    .slice(0, MAX_SHOWN)
    .map(({ item }) => item);
}
