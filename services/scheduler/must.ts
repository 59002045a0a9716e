/** The premises were read in the same transaction: a statement that finds them gone is a fault of this program. */
export const must = (changed: boolean): void => {
  if (!changed) throw new Error("a transaction found its premises changed inside itself");
};
