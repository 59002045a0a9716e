import { createServer } from "node:http";

/** What is answered, by path: each route is given the request's URL and the commit that is being served. */
const routes = new Map([
  ["/", () => ({ service: "greeter" })],
  ["/version", (_url, commit) => ({ commit })],
]);

/** A server that is not listening yet. `commit` is what `/version` says is being served. */
export const makeServer = ({ commit }) =>
  createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const route = routes.get(url.pathname);
    const answer = route ? route(url, commit) : { error: `there is no ${url.pathname}` };
    response.writeHead(route ? 200 : 404, { "content-type": "application/json" });
    response.end(`${JSON.stringify(answer)}\n`);
  });
