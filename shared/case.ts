/** JSON, tables and HTTP speak snake_case, TypeScript camelCase. These two functions and types are the only border. */

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;
type Snake<S extends string> = S extends `${infer C}${infer Rest}`
  ? C extends Lowercase<C>
    ? `${C}${Snake<Rest>}`
    : `_${Lowercase<C>}${Snake<Rest>}`
  : S;

/** `T` with its own keys in camelCase; values are left as they are. */
export type CamelKeys<T> = { [K in keyof T as K extends string ? Camel<K> : K]: T[K] };
/** `T` with its own keys in snake_case; values are left as they are. */
export type SnakeKeys<T> = { [K in keyof T as K extends string ? Snake<K> : K]: T[K] };

/** One name in camelCase. */
export const camel = (key: string): string =>
  key.includes("_") ? key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : key;
const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const mapKeys = (row: object, rename: (key: string) => string): Record<string, unknown> => {
  const renamed: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(row)) renamed[rename(key)] = value;
  return renamed;
};

/** The same row with camelCase keys (one level deep). */
export const toCamel = <T extends object>(row: T): CamelKeys<T> => mapKeys(row, camel) as CamelKeys<T>;

/** The same row with snake_case keys (one level deep). */
export const toSnake = <T extends object>(row: T): SnakeKeys<T> => mapKeys(row, snake) as SnakeKeys<T>;
