// Reads {"grammar": path, "modules": path, "programs": {name: text}} from standard input, and prints for each program
// a list of lines, which are lists of [text, innermost scope], as an editor sees them.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { grammar: path, modules, programs } = JSON.parse(readFileSync(0, "utf-8"));
const require = createRequire(`${modules}/`);
const oniguruma = require("vscode-oniguruma");
const textmate = require("vscode-textmate");

await oniguruma.loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")));
const registry = new textmate.Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (sources) => new oniguruma.OnigScanner(sources),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => textmate.parseRawGrammar(readFileSync(path, "utf-8"), path),
});
const grammar = await registry.loadGrammar("source.flintlog");

function tokens(text) {
  let state = textmate.INITIAL;
  return text.split("\n").map((line) => {
    const found = grammar.tokenizeLine(line, state);
    state = found.ruleStack;
    return found.tokens.map((token) => [line.slice(token.startIndex, token.endIndex), token.scopes.at(-1)]);
  });
}

console.log(JSON.stringify(Object.fromEntries(Object.entries(programs).map(([name, text]) => [name, tokens(text)]))));
