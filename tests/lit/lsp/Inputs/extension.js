// Runs the extension of templates/editor/vscode with a stand-in of the editor and of its client: what it
// starts, with which settings, and that a change of these starts it anew.
const Module = require("module");
const path = require("path");

const settings = { command: "lockstep", importPaths: ["a", "b"], sizes: { n: "1M" }, peak: 0 };
const started = [];
let stopped = 0, shown = "", fails = false, changed;

class LanguageClient {
  constructor(id, name, server, documents) { this.made = { id, server, documents }; }
  async start() {
    if (fails) throw new Error("not found");
    started.push(this.made);
  }
  async stop() { stopped++; }
}

const stand_ins = {
  vscode: {
    commands: { registerCommand: (name, run) => ({ name, run }) },
    window: { showErrorMessage: (text) => { shown = text; } },
    workspace: {
      getConfiguration: (section) => ({ get: (name) => (section === "lockstep" ? settings[name] : undefined) }),
      createFileSystemWatcher: (pattern) => ({ pattern }),
      onDidChangeConfiguration: (call) => { changed = call; return {}; },
    },
  },
  "vscode-languageclient/node": { LanguageClient },
};
const load = Module._load;
Module._load = (name, ...rest) => stand_ins[name] || load(name, ...rest);

function check(what, good) {
  if (!good) throw new Error(what);
}

async function main() {
  const folder = process.argv[2];
  const extension = require(path.join(folder, "extension.js"));
  const described = require(path.join(folder, "package.json"));
  const properties = described.contributes.configuration.properties;
  for (const name of Object.keys(settings)) check(`no setting ${name}`, properties[`lockstep.${name}`]);
  check("main", described.main === "./extension.js" && described.dependencies["vscode-languageclient"]);
  const context = { subscriptions: [] };
  await extension.activate(context);
  check("commands", described.contributes.commands[0].command === context.subscriptions[0].name);
  const { server, documents } = started[0];
  check("arguments", server.command === "lockstep" && server.args.join(" ") === "lsp -I a -I b");
  check("language", documents.documentSelector[0].language === described.contributes.languages[0].id);
  check("options", JSON.stringify(documents.initializationOptions) === '{"sizes":{"n":"1M"}}');
  settings.peak = 40;
  changed({ affectsConfiguration: () => true });
  await new Promise(setImmediate);
  check("new settings", started.length === 2 && stopped === 1 && started[1].documents.initializationOptions.peak === 40);
  fails = true;
  settings.command = "/nowhere";
  await context.subscriptions[0].run();
  check("message", shown.includes("`/nowhere lsp` could not be started: not found"));
  await extension.deactivate();
  check("stopped", stopped === 2);
  console.log("the extension starts the server");
}

main().catch((error) => {
  console.log(`FAILED: ${error.message}`);
  process.exit(1);
});
