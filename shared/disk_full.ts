/** Whether an error's code is the operating system's word for a disk, or a quota on it, that is full. */
export const isDiskFull = (code: unknown): boolean => code === "ENOSPC" || code === "EDQUOT";
