// A proxy with the middleware compression, as programs with Express have it. The arguments are a directory with
// node_modules, the port, the address of the service, and whether no-transform is taken out of its answers.
import { createRequire } from "node:module";
import http from "node:http";

const [, , dir, port, service, strips] = process.argv;
const compression = createRequire(dir + "/x.js")("compression")();

http.createServer((req, res) => compression(req, res, () => {
  const out = http.request(`http://${service}${req.url}`, { method: req.method, headers: req.headers }, (answer) => {
    for (const [name, value] of Object.entries(answer.headers)) {
      res.setHeader(name, strips === "true" && name === "cache-control" ? "no-store" : value);
    }
    res.statusCode = answer.statusCode;
    answer.pipe(res);
  });
  req.pipe(out);
})).listen(Number(port), "127.0.0.1", () => console.log("ready"));
