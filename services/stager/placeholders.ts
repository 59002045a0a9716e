/** What `{commit}`, `{branch}` and `{work_item_id}` stand for in an http check. */
export interface Placeholders {
  commit: string;
  branch: string;
  work_item_id: string;
}

const PLACEHOLDER = /\{(commit|branch|work_item_id)\}/g;

/** Other braces are left alone: an answer that is JSON has many. */
export const fillIn = (text: string, values: Placeholders): string =>
  text.replace(PLACEHOLDER, (_, name: keyof Placeholders) => values[name]);

/** The same for a URL: what a branch's name may hold and a URL may not is percent-encoded; its slashes stay. */
export const fillInUrl = (url: string, values: Placeholders): string =>
  url.replace(PLACEHOLDER, (_, name: keyof Placeholders) => encodeURIComponent(values[name]).replaceAll("%2F", "/"));
