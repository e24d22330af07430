// Bundles a page, as npx esbuild does. The arguments are the directory with node_modules, the page and the bundle.
import { createRequire } from "node:module";

const [dir, page, bundle] = process.argv.slice(2);
const { build } = createRequire(dir + "/x.js")("esbuild");
await build({
  entryPoints: [page], outfile: bundle, bundle: true, format: "esm", jsx: "automatic", logLevel: "error",
  nodePaths: [dir + "/node_modules"],
});
