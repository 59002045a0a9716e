import { isIP } from "node:net";

/** True for an address that only this machine can reach: 127.0.0.0/8, ::1 (also as a mapped IPv4 address) and `localhost`. */
export const isLoopback = (host: string): boolean => {
  if (host.toLowerCase() === "localhost") return true;
  switch (isIP(host)) {
    case 4:
      return host.startsWith("127.");
    case 6: {
      // The URL parser writes an IPv6 address in its one short form; a zone has no place there.
      if (host.includes("%")) return false;
      const { hostname } = new URL(`http://[${host}]`);
      return hostname === "[::1]" || /^\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]$/.test(hostname);
    }
    default:
      return false;
  }
};
