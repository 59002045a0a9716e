import type { ErrorCode } from "yaml";

/**
 * The parser's errors in words of our own: its own messages may quote a piece of the text, and that may be a secret (an
 * unquoted `!password` is a tag, `*password` an alias).
 */
const TEXTS: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: "an alias cannot have an anchor or a tag",
  BAD_ALIAS: "an anchor or alias without a usable name",
  BAD_COLLECTION_TYPE: "a tag that does not fit the mapping or list behind it",
  BAD_DIRECTIVE: "a YAML directive that is not accepted",
  BAD_DQ_ESCAPE: "an unknown escape sequence in double quotes; a backslash is written \\\\",
  BAD_INDENT: "the indentation does not fit the lines around it",
  BAD_PROP_ORDER: "a tag or anchor in a place where none can be",
  BAD_SCALAR_START: "an unquoted value cannot begin with this character; put the value in quotes",
  BLOCK_AS_IMPLICIT_KEY:
    "a second ': ' or '- ' in a line; put the value in quotes, or what it nests on lines of its own",
  BLOCK_IN_FLOW: "an indented mapping or list, or block text, inside of brackets",
  DUPLICATE_KEY: "a duplicate key",
  IMPOSSIBLE: "this is not YAML",
  KEY_OVER_1024_CHARS: "a key of more than 1024 characters",
  MISSING_CHAR: "a ':', a ',' or a closing bracket is missing",
  MULTILINE_IMPLICIT_KEY: "a key must stand on one line and be followed by ':'",
  MULTIPLE_ANCHORS: "more than one anchor for a value",
  MULTIPLE_DOCS: "a second YAML document; one is accepted",
  MULTIPLE_TAGS: "more than one tag for a value",
  NON_STRING_KEY: "a key must be text",
  RESOURCE_EXHAUSTION: "nested too deeply",
  TAB_AS_INDENT: "a tab is used as indentation; use spaces",
  TAG_RESOLVE_FAILED:
    "a tag that is not accepted, or does not fit its value; put a value that begins with '!' in quotes",
  UNEXPECTED_TOKEN: "something that YAML does not allow here",
};

export const yamlErrorText = (code: ErrorCode): string => TEXTS[code];
